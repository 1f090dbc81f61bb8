"""Runs the programs of the package, such as `holdfast doctor`, with the message that `holdfast` itself has for
output that can't be written."""

import sys
import typing as t


class _CantWriteError(OSError):
    """The output; another file's error stays what it is."""


class _Output:
    """Standard output."""

    def __init__(self, file: t.Any):
        self._file = file

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        return self._call("write", text)

    def flush(self) -> None:
        self._call("flush")

    def _call(self, name: str, *args: str) -> t.Any:
        try:
            return getattr(self._file, name)(*args)
        except OSError as error:
            raise _CantWriteError(error.errno, error.strerror) from None


def run(name: str, main: t.Callable[[], int]) -> int:
    """Run a program.

    Parameters
    ----------
    name : str
        The program, as its messages begin.
    main : callable
        It gives the exit status.

    Returns
    -------
    int
        The exit status; 1 if the output can't be written, as on a full disk.
    """
    if sys.stdout is None:  # it was closed
        return main()
    sys.stdout = _Output(sys.stdout)  # type: ignore[assignment]
    try:
        status = main()
        sys.stdout.flush()
    except _CantWriteError as error:
        sys.stdout = None  # type: ignore[assignment]  # or Python says it once more at its end
        print(f"{name}: can't write the output: {error.strerror}", file=sys.stderr)
        return 1
    return status
