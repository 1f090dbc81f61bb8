"""Exceptions that user code may want to catch."""

from __future__ import annotations

__all__ = ["NotCarriedError"]


class NotCarriedError(NameError):
    """A variable of the notebook can't be carried into an instrumented cell.

    Raised where a cell in a process of its own uses the name. The variable lives on at home.

    Attributes
    ----------
    name : str
        The variable.
    reason : str
        Why it can't be carried, with its type.
    """

    def __init__(self, name: str, reason: str):
        super().__init__(
            f"{name!r} can't be carried into this cell's process: {reason}. It lives on at"
            " home: run this cell there (%%execute_with_scorep --road=home, or as a plain cell), or"
            " make what it needs from it in the cell itself",
            name=name,
        )
        self.reason = reason

    def __reduce__(self):
        return type(self), (self.name, self.reason)


NotCarriedError.__module__ = "holdfast"


def with_reason(error: BaseException, lost: dict[str, str]) -> BaseException:
    """A NameError for what a cell made and could not hand over, with the reason; others as they are.

    Parameters
    ----------
    error : BaseException
        What the notebook's code raised.
    lost : dict of str to str
        The reasons, by the variable.
    """
    name = getattr(error, "name", None)
    if type(error) is not NameError or name not in lost:
        return error
    told = (
        f"{error}. A cell made it in a process of its own, and it can't be carried out of that:"
        f" {lost[name]}. Make it in a plain cell, or with --road=home"
    )
    return NameError(told, name=name).with_traceback(error.__traceback__)
