"""Finds a Score-P installation, and loads it into a process.

``scorep-config`` says of which libraries and subsystems Score-P consists, for some options. Its adapters for
MPI, files, memory and compiled code stand between a program and its libraries, so the dynamic linker must load
them first. For that, ``python -m holdfast.scorep`` sets LD_PRELOAD and starts the interpreter anew, once. Events
of Python and of threads don't need this. So a program that already runs (a cell, ``scorep.register()``) loads
Score-P when its recording is opened, even after a fork, with the environment that it has then.

The libraries refer to each other's data in circles, so dlopen can't load one of them alone. It can load a library
that names all of them as its dependencies. `_bundle` writes such a library, with a header and a dynamic section,
into a file in memory. No compiler is needed.

HOLDFAST_RECORDER chooses: ``scorep``, ``builtin``, or ``auto`` (Score-P if ``scorep-config`` is on PATH).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import struct
import typing as t

from holdfast import _recorder

from .messages import warn, warn_once

_SUBSYSTEMS = "HOLDFAST_SCOREP_SUBSYSTEMS"  # scorep_subsystems.c reads it
_PRELOADED = "HOLDFAST_SCOREP_PRELOADED"  # in a restarted process: the user's own LD_PRELOAD
# Adapters whose events come from calls by the program, by Holdfast, or by Score-P itself.
_NEED_NO_PLACE = {"scorep_adapter_user_event", "scorep_adapter_pthread_event"}
_COMPILER = "scorep_adapter_compiler_event"

# We don't link Python. So calls are intercepted at run time, not when a program is linked.
_SPELT = {"--mpi": "--mpp=mpi", "--io=posix": "--io=runtime:posix"}
# From version 9 on Score-P replaces entries of the running process's tables. A variable says
# whether.
_IN_TABLES = 9
_INTERPOSED = re.compile(
    "_(mpi|shmem)_"
)  # these must still be loaded before the program's libraries

_loaded = False
_left: str | None = None  # in a fork of a process with Score-P: the parent's directory
_preloaded = False
_paused = False
_directory = ""
_options: tuple[str, ...] = ("--user", "--compiler", "--thread=pthread")


class Installation(t.NamedTuple):
    """The parts of Score-P, for some options.

    Attributes
    ----------
    libraries : tuple of str
        Paths of all its own libraries.
    preload : tuple of str
        Paths of those that it wants in LD_PRELOAD itself.
    adapters : frozenset of str
        Names of the libraries from which events come.
    subsystems : str
        Names of symbols, each with a blank after it.
    """

    libraries: tuple[str, ...]
    preload: tuple[str, ...]
    adapters: frozenset[str]
    subsystems: str


def is_chosen() -> bool:
    """Return whether Score-P is to record; it may turn out not to be there.

    A forked child of a process that Score-P records can't go on with it: if it has a directory of its
    own, the built-in recorder records it.

    Returns
    -------
    bool
        By HOLDFAST_RECORDER, and whether there is ``scorep-config``: one that is installed later is found when PATH
        changes, or in another process.
    """
    if _left is not None and os.environ.get("SCOREP_EXPERIMENT_DIRECTORY") != _left:
        return False
    choice = _understand(os.environ.get("HOLDFAST_RECORDER", ""))
    if choice == "auto":
        found = None if _preloaded else _config_on(os.environ.get("PATH"))
        return _preloaded or (found is not None and os.access(found, os.X_OK))
    return choice == "scorep"


def find_config() -> str | None:
    """Look for ``scorep-config``. `shutil` would take each start of the built-in recorder 5 ms.

    Returns
    -------
    str or None
        Its path, if it is on PATH.
    """
    paths = (os.path.join(directory, "scorep-config") for directory in os.get_exec_path())
    return next((p for p in paths if os.access(p, os.X_OK) and os.path.isfile(p)), None)


@functools.lru_cache(maxsize=1)
def _config_on(_path: str | None) -> str | None:
    """``scorep-config`` on this PATH. A process looks once: each recorded cell asks three times."""
    return find_config()


@functools.cache
def _understand(choice: str) -> str:
    if choice in ("auto", "scorep", "builtin"):
        return choice
    if choice:
        warn_once(
            f"HOLDFAST_RECORDER={choice!r} must be one of auto, scorep, builtin; taken as auto"
        )
    return "auto"


def configure(options: t.Iterable[str]) -> None:
    """Choose the options of scorep-config.

    ``--user`` is always among them, and threads and compiled
    code are recorded unless the options say otherwise.

    Parameters
    ----------
    options : iterable of str
        As the user gave them.
    """
    global _options
    given = [_SPELT.get(option, option) for option in options]
    if "--io=runtime:posix" in given and _version(find_config()) >= _IN_TABLES:
        given.remove("--io=runtime:posix")
        os.environ.setdefault("SCOREP_IO_POSIX", "true")
    if not any(option.startswith("--thread") for option in given):
        given.insert(0, "--thread=pthread")
    if "--nocompiler" not in given and "--compiler" not in given:
        given.insert(0, "--compiler")
    _options = ("--user", *(option for option in given if option != "--user"))


def options() -> tuple[str, ...]:
    """Return the options of scorep-config.

    Returns
    -------
    tuple of str
        What `configure` chose.
    """
    return _options


@contextlib.contextmanager
def settings_kept() -> t.Iterator[None]:
    """Leave the ``SCOREP_...`` variables as they were at the end of the block.

    Score-P reads the environment when a recording is opened, but a notebook's environment is the user's.
    """
    before = {name: value for name, value in os.environ.items() if name.startswith("SCOREP_")}
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("SCOREP_")]:
            if name not in before:
                del os.environ[name]
        os.environ.update(before)


def is_mpi() -> bool:
    """Return whether several processes make one experiment.

    Returns
    -------
    bool
        By the option ``--mpp``.
    """
    return any(option.startswith("--mpp=") and option != "--mpp=none" for option in _options)


def _refuse_static(program: str) -> None:
    """Raise RuntimeError if Score-P has no shared libraries, which its own error doesn't say."""
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    libraries = [
        name
        for folder in ("lib", "lib64")
        if os.path.isdir(os.path.join(prefix, folder))
        for name in os.listdir(os.path.join(prefix, folder))
        if name.startswith("libscorep_")
    ]
    if libraries and all(name.endswith((".a", ".la")) for name in libraries):
        raise RuntimeError(
            f"the Score-P in {prefix} has static libraries only, which Python can't load: it must be "
            "configured with --enable-shared. Until then HOLDFAST_RECORDER=builtin records without it"
        )


def _ask(program: str, options: tuple[str, ...], what: str) -> str:
    import subprocess  # here and below: it takes 6 ms, and only Score-P needs it

    done = subprocess.run([program, what, *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        _refuse_static(program)
        said = (done.stdout + done.stderr).strip().splitlines()
        raise RuntimeError(
            f"scorep-config refuses {' '.join(options)}" + (f": {said[0]}" if said else "")
        )
    return done.stdout


def find() -> Installation:
    """Ask scorep-config for Score-P's parts, once.

    Returns
    -------
    Installation
        The libraries for the options.

    Raises
    ------
    RuntimeError
        It isn't there, refuses the options, or Score-P has no shared libraries.
    """
    program = find_config()
    if program is None:
        raise RuntimeError("there is no scorep-config on PATH")
    return _find(program, _options)


@functools.lru_cache
def _version(program: str | None) -> int:
    """The first number of Score-P's version. 0 if it isn't known."""
    if program is None:
        return 0
    import subprocess

    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.match(r"\d+", done.stdout)
    return int(number[0]) if number else 0


@functools.lru_cache
def _find(program: str, options: tuple[str, ...]) -> Installation:
    ask = functools.partial(_ask, program, options)
    init = ask("--adapter-init")
    folders = re.findall(r"-L(\S+)", ask("--ldflags"))
    names = re.findall(r"-l(scorep_\S+)", ask("--libs"))
    preload = ask("--preload-libs").split()
    paths = []
    for name in names:
        places = (os.path.join(folder, f"lib{name}.so") for folder in folders)
        path = next(filter(os.path.exists, places), None)
        if path is None:
            _refuse_static(program)
            raise RuntimeError(f"Score-P has no shared library lib{name}.so")
        paths.append(path)
    subsystems = re.findall(r"&\s*(SCOREP_Subsystem_\w+)", init)
    adapters = frozenset(name for name in names if name.endswith("_event") or "_event_" in name)
    return Installation(
        tuple(dict.fromkeys(paths)),
        tuple(preload),
        adapters,
        "".join(f"{name} " for name in subsystems),
    )


def _absent(found: Installation) -> frozenset[str]:
    """The adapters that record no events if Score-P is loaded into a running process."""
    if _version(find_config()) >= _IN_TABLES:
        return frozenset(filter(_INTERPOSED.search, found.adapters))
    return found.adapters - _NEED_NO_PLACE - {_COMPILER}


def is_loaded() -> bool:
    """Return whether Score-P is in this process, which it can't leave.

    Returns
    -------
    bool
        Whether it was loaded, or the process was started with it.
    """
    return _loaded or _preloaded


def needs_start() -> bool:
    """Return whether the options ask for what must be there when a process starts.

    Returns
    -------
    bool
        Whether Score-P's adapters have to be loaded before the program's libraries.

    Raises
    ------
    RuntimeError
        See `find`.
    """
    return bool(_absent(find()))


def _table() -> str:
    """The path of scorep_subsystems.c's library."""
    folder = os.path.dirname(os.path.abspath(_recorder.__file__))
    return os.path.join(folder, "libholdfast_scorep.so")


# ---- before the process


def restart(environ: t.MutableMapping[str, str]) -> None:
    """Set in an environment what makes a program start with Score-P.

    Parameters
    ----------
    environ : mutable mapping of str to str
        The environment. It is changed.

    Raises
    ------
    RuntimeError
        See `find`.
    """
    found = find()
    before = environ.get("LD_PRELOAD", "")
    libraries = dict.fromkeys((*found.preload, *found.libraries))
    environ["LD_PRELOAD"] = " ".join((*before.split(), *libraries, _table()))
    environ[_SUBSYSTEMS] = found.subsystems
    environ[_PRELOADED] = before


def restarted(environ: t.MutableMapping[str, str], *, paused: bool = False) -> bool:
    """Note whether this process was started by `restart`. Its own children won't be, then.

    Parameters
    ----------
    environ : mutable mapping of str to str
        The environment. Variables that `restart` set are removed.
    paused : bool
        Whether recording has been switched off until `load`.

    Returns
    -------
    bool
        Whether it was.
    """
    global _preloaded, _paused, _directory
    before = environ.pop(_PRELOADED, None)
    if before is None:
        return False
    environ.pop(_SUBSYSTEMS, None)
    _paused = paused
    _directory = environ.get("SCOREP_EXPERIMENT_DIRECTORY", "")
    environ["LD_PRELOAD"] = before
    if not before:
        del environ["LD_PRELOAD"]
    _preloaded = True
    return True


def is_preloaded() -> bool:
    """Return whether this process was started with Score-P, which measures since then.

    Returns
    -------
    bool
        What `restarted` found.
    """
    return _preloaded


def started_in() -> str:
    """Return the experiment directory with which the process was started.

    A cell's environment is the notebook's by now.

    Returns
    -------
    str
        The directory, or "".
    """
    return _directory


# ---- in the process


def load() -> None:
    """Load Score-P into this process, unless it is there.

    Raises
    ------
    RuntimeError
        See `find`.
    OSError
        Its libraries can't be loaded.
    """
    global _loaded, _paused
    if _preloaded:
        _recorder.load_scorep("", "", "")
        _loaded = True
        if _paused:
            import ctypes

            ctypes.CDLL(None).SCOREP_User_EnableRecording()
            _paused = False
        return
    found = find()
    if needs_start():
        warn(
            "these can be recorded only if python -m holdfast.scorep starts the program: "
            + ", ".join(sorted(_absent(found)))
        )
    bundle = os.memfd_create("scorep-libraries")
    try:
        os.write(bundle, _bundle(found.libraries))
        # The path has the process's number. The linker knows loaded libraries by name, and a fork
        # has those of its parent.
        path = f"/proc/{os.getpid()}/fd/{bundle}"
        _recorder.load_scorep(_table(), path, found.subsystems)
        _loaded = True
    finally:
        os.close(bundle)


def end_alone() -> None:
    """Have Score-P write its results now if it waits for the end of MPI.

    This is for a cell's process, the only one of its world, which leaves without running exit handlers
    of C.
    """
    if not (_preloaded and is_mpi()):
        return
    import ctypes

    program, is_there, is_over = ctypes.CDLL(None), ctypes.c_int(), ctypes.c_int()
    program.MPI_Initialized(ctypes.byref(is_there))
    program.MPI_Finalized(ctypes.byref(is_over))
    if is_there.value and not is_over.value:
        program.MPI_Finalize()
    if is_there.value:
        program.SCOREP_FinalizeMeasurement()


def _leave() -> None:
    """In a forked child: note that Score-P's state is the parent's, and would write to its
    files."""
    global _left
    if _loaded:
        _left = os.environ.get("SCOREP_EXPERIMENT_DIRECTORY", "")


os.register_at_fork(after_in_child=_leave)


def _bundle(libraries: t.Sequence[str]) -> bytes:
    """A shared library that only names others as its dependencies: ELF, 64 bits."""
    with open("/proc/self/exe", "rb") as file:
        identity, _, machine = struct.unpack("=16sHH", file.read(20))
    header, section, symbol = 64, 56, 24
    symbols = header + 2 * section  # one empty symbol, with which each table begins
    hashes = symbols + symbol
    strings = hashes + 16
    text, entries = b"\0", []
    for path in libraries:
        entries.append((1, len(text)))  # DT_NEEDED
        text += os.fsencode(path) + b"\0"
    # DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL
    entries += [(4, hashes), (5, strings), (6, symbols), (10, len(text)), (11, symbol), (0, 0)]
    dynamic = -(-(strings + len(text)) // 16) * 16
    size = 16 * len(entries)
    end = dynamic + size
    # ET_DYN; PT_LOAD and PT_DYNAMIC, readable and writable
    image = struct.pack(
        "=16sHHIQQQIHHHHHH",
        identity, 3, machine, 1, 0, header, 0, 0, header, section, 2, 0, 0, 0,
    )  # fmt: skip
    image += struct.pack("=IIQQQQQQ", 1, 6, 0, 0, 0, end, end, 0x10000)
    image += struct.pack("=IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, size, size, 8)
    image += bytes(symbol) + struct.pack("=IIII", 1, 1, 0, 0) + text
    return image.ljust(dynamic, b"\0") + b"".join(struct.pack("=QQ", *one) for one in entries)
