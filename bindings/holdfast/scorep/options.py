"""The options of ``python -m holdfast.scorep``. A recorded cell has the same ones.

A value follows its option after ``=`` or as the next argument. Options that Score-P's own
``scorep-config`` understands are kept for it.
"""

from __future__ import annotations

import collections
import os
import types
import typing as t

TYPES = ("profile", "trace", "cProfile", "cTrace", "dummy")

_SWITCHES = {
    "--user", "--nouser", "--compiler", "--nocompiler", "--cuda", "--nocuda",
    "--openacc", "--noopenacc", "--opencl", "--noopencl", "--kokkos", "--nokokkos",
    "--hip", "--nohip", "--memory", "--nomemory", "--pomp", "--nopomp", "--opari",
    "--noopari", "--preprocess", "--nopreprocess", "--online-access", "--noonline-access",
    "--static", "--dynamic", "--no-as-needed",
}  # fmt: skip
_VALUED = ("--mpp", "--thread", "--io", "--mutex", "--libwrap", "--target")


class UsageError(RuntimeError):
    """The command line can't be understood."""


class Options:
    """The options of the command line, and the program that follows them.

    Attributes
    ----------
    instrument : bool
        Whether functions are recorded from the program's first line on.
    dummy : bool
        Whether nothing at all is recorded.
    c_functions, lines, verbose : bool
        Options of the same names.
    instrumenter_file : str or None
        A file of Python that runs before the program.
    forwarded : list of str
        Options of scorep-config that the built-in recorder doesn't have.
    unknown : list of str
        Options that scorep-config may know.
    kind : {"script", "module", "code", "help", ""}
        What `program` is; "" if none follows.
    program : str
        The program.
    arguments : list of str
        Its arguments.
    text : bytes or None
        The program itself, once it was read from stdin.
    """

    def __init__(self) -> None:
        self.instrument = True  # record functions from the program's first line on
        self.dummy = False  # record nothing at all
        self.c_functions = False
        self.lines = False
        self.verbose = False
        self.instrumenter_file: str | None = None
        self.forwarded: list[str] = []  # for scorep-config, which the built-in recorder has not
        self.unknown: list[str] = []  # scorep-config may know them
        self.kind = "script"  # script, module, code, help; "" if no program follows
        self.program = ""
        self.arguments: list[str] = []
        self.text: bytes | None = None


def _take_type(options: Options, kind: str) -> None:
    if kind not in TYPES:
        raise UsageError(f"unknown instrumenter type {kind!r}, not one of {', '.join(TYPES)}")
    options.dummy = kind == "dummy"


def _take_switch(options: Options, name: str) -> bool:
    """Take an option without a value; False if it isn't one."""
    if name in ("--noinstrumenter", "--nopython"):
        options.instrument = False
    elif name == "--c-functions":
        options.c_functions = True
    elif name == "--lines":
        options.lines = True
    elif name in ("-v", "--verbose"):
        options.verbose = True
    elif name == "--mpi":
        options.forwarded.append("--mpp=mpi")
    elif name in _SWITCHES:
        options.forwarded.append(name)
    else:
        return name == "--keep-files"
    return True


def _take(options: Options, argument: str, rest: collections.deque[str]) -> None:
    name, equals, value = argument.partition("=")
    if _take_switch(options, argument):
        return
    if name in ("--instrumenter-type", "--instrumenter-file", *_VALUED):
        if not equals and not rest:
            raise UsageError(f"{name} needs a value")
        value = value if equals else rest.popleft()
        if name == "--instrumenter-type":
            _take_type(options, value)
        elif name == "--instrumenter-file":
            options.instrumenter_file = value
        else:
            options.forwarded.append(f"{name}={value}")
    elif argument.startswith("--"):
        options.unknown.append(argument)
    else:
        raise UsageError(f"unknown option {argument}")


def parse(arguments: t.Iterable[str]) -> Options:
    """Read the options up to the program, and leave the program's alone.

    Parameters
    ----------
    arguments : iterable of str
        The words of the command line.

    Returns
    -------
    Options
        What they say.

    Raises
    ------
    UsageError
        An option isn't known or lacks its value, or no program follows.
    """
    options, rest = Options(), collections.deque(arguments)
    options.kind = ""
    while rest and not options.kind:
        argument = rest.popleft()
        if argument in ("-h", "--help"):
            options.kind = "help"
        elif argument in ("--", "-m", "-c"):
            options.kind = {"--": "script", "-m": "module", "-c": "code"}[argument]
        elif argument.startswith("-") and argument != "-":
            _take(options, argument, rest)
        else:
            options.kind = "script"
            rest.appendleft(argument)
    if options.kind and options.kind != "help" and not rest:
        raise UsageError("no program to run")
    options.program = rest.popleft() if rest else ""
    options.arguments = list(rest)
    return options


def load_instrumenter_file(options: Options) -> types.CodeType | None:
    """Compile the file of ``--instrumenter-file``, which runs before the program.

    Parameters
    ----------
    options : Options
        What the command line says.

    Returns
    -------
    code or None
        None if there is no such file.

    Raises
    ------
    UsageError
        The file can't be read.
    SyntaxError
        It isn't Python.
    """
    if options.instrumenter_file is None:
        return None
    path = os.path.abspath(options.instrumenter_file)
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"can't read {options.instrumenter_file}: {error.strerror}") from None


def run_instrumenter_file(code: types.CodeType | None) -> None:
    """Run the code that `load_instrumenter_file` returned.

    Parameters
    ----------
    code : code or None
        The code; nothing happens for None.
    """
    if code is not None:
        exec(code, {"__name__": "__instrumenter__", "__file__": code.co_filename})  # noqa: S102
