"""Exceptions that user code may want to catch."""

from __future__ import annotations

__all__ = ["NotCarriedError"]


class NotCarriedError(NameError):
    """A variable of the notebook can't be carried into an instrumented cell.

    Raised where the cell uses the name. The variable lives on in the plain cells.

    Attributes
    ----------
    name : str
        The variable.
    reason : str
        Why it can't be carried, with its type.
    """

    def __init__(self, name: str, reason: str):
        super().__init__(
            f"{name!r} can't be carried into this cell's process: {reason}. It is still there in"
            " plain cells: run this cell without %%execute_with_scorep, or make what it"
            " needs from it in the cell itself",
            name=name,
        )
        self.reason = reason

    def __reduce__(self):
        return type(self), (self.name, self.reason)


NotCarriedError.__module__ = "holdfast"
