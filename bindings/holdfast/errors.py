"""Exceptions that user code may want to catch."""

from __future__ import annotations

import sys

from holdfast.base import sentences

__all__ = ["NotCarriedError", "QuarantinedError"]


class NotCarriedError(NameError):
    """A variable of the notebook can't be carried into a cell's process.

    It is raised when a cell in a process of its own uses the name. The main worker keeps the variable.

    Parameters
    ----------
    name : str
        The variable.
    reason : str
        Why it can't be carried, with its type.

    Attributes
    ----------
    name : str
        The variable.
    reason : str
        Why it can't be carried, with its type.
    """

    def __init__(self, name: str, reason: str):
        super().__init__(
            f"{name!r} can't be carried into this cell's process: {sentences.brief(name, reason)}."
            " The notebook's own process has it: use a plain cell or"
            " %%execute_with_scorep --run=in-process",
            name=name,
        )
        self.reason = reason

    def __reduce__(self):
        return type(self), (self.name, self.reason)


class QuarantinedError(NotCarriedError):
    """A variable of the notebook could not be loaded into this process.

    It is raised when the name is used. Its stored copy is kept.

    Parameters
    ----------
    name : str
        The variable.
    reason : str
        What happened when it was loaded.
    """

    def __init__(self, name: str, reason: str):
        NameError.__init__(
            self,
            f"{name!r} isn't loaded here: {sentences.brief(name, reason)}. Its stored copy is kept:"
            f" `%holdfast retry {name}` tries once more, `del {name}` deletes it",
            name=name,
        )
        self.reason = reason


NotCarriedError.__module__ = "holdfast"
QuarantinedError.__module__ = "holdfast"


LAST = ("last_type", "last_value", "last_traceback", "last_exc")


def of_last_error(error: BaseException) -> BaseException:
    """Explain an AttributeError of ``sys.last_value`` and the like.

    They are missing in a process that hasn't met the notebook's last error.

    Parameters
    ----------
    error : BaseException
        What the notebook's code raised.

    Returns
    -------
    BaseException
        An AttributeError with an explanation and the same traceback, or `error` itself.
    """
    if type(error) is not AttributeError or error.obj is not sys or error.name not in LAST:
        return error
    message = (
        f"{error}. If a cell raised an error in another process, its frames can't be carried here"
    )
    found = AttributeError(message, name=error.name, obj=error.obj)
    return found.with_traceback(error.__traceback__)


def with_reason(error: BaseException, lost: dict[str, str]) -> BaseException:
    """Give the NameError of a value that a cell could not hand over its reason.

    Parameters
    ----------
    error : BaseException
        What the notebook's code raised.
    lost : dict of str to str
        The reasons, by the variable.

    Returns
    -------
    BaseException
        A NameError with the reason and the same traceback, or `error` itself if it has another cause.
    """
    name = getattr(error, "name", None)
    if type(error) is not NameError or name not in lost:
        return error
    message = (
        f"{error}. A cell made it in a process of its own, and it can't be carried out of that:"
        f" {sentences.brief(name, lost[name])}. To make it, {sentences.INSTEAD}"
    )
    return NameError(message, name=name).with_traceback(error.__traceback__)
