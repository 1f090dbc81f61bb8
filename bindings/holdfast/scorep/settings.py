"""The SCOREP_... variables, and the experiment directory they lead to.

The names, defaults and behaviour are those of Score-P's measurement configuration
variables, with one exception: tracing is on unless SCOREP_ENABLE_TRACING says otherwise,
because the built-in back end is there to write traces. Profiling stays off unless asked
for.
"""

from __future__ import annotations

import errno
import os
import time
import typing

from . import experiments, filtering, loading
from .messages import is_new, warn, warn_once

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

#: Every variable that the built-in back end acts on.
KNOWN = frozenset(
    "SCOREP_" + name
    for name in (
        "ENABLE_TRACING",
        "ENABLE_PROFILING",
        "EXPERIMENT_DIRECTORY",
        "FILTERING_FILE",
        "OVERWRITE_EXPERIMENT_DIRECTORY",
        "PROFILING_BASE_NAME",
        "PROFILING_FORMAT",
        "PROFILING_MAX_CALLPATH_DEPTH",
        "TOTAL_MEMORY",
        "VERBOSE",
    )
)


def _flag(environ, name: str, default: bool) -> bool:
    text = environ.get(name)
    if text is None or not text.strip():
        return default
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word not in _FALSE:
        warn_once(f"{name}={text!r} is neither true nor false; taken as {str(default).lower()}")
        return default
    return False


def _size(environ, name: str, default: int) -> int:
    text = environ.get(name, "").strip().lower().removesuffix("b")
    if not text:
        return default
    number = text.rstrip("kmgt")
    try:
        value = int(float(number) * _UNITS[text[len(number) :]])
    except (KeyError, ValueError, OverflowError):
        value = 0
    if value <= 0:
        warn_once(f"{name}={environ[name]!r} is not a size; the default is used")
        return default
    return value


def _name_ignored(environ) -> None:
    """Name each SCOREP_... variable that has no effect here, once."""
    ignored = {
        name
        for name in environ
        # SCOREP_JUPYTER_... are the settings of a kernel, not of a measurement.
        if name.startswith("SCOREP_") and not name.startswith("SCOREP_JUPYTER_")
    }
    ignored = set(filter(is_new, ignored - KNOWN))
    if ignored:
        warn("the built-in recorder ignores: " + ", ".join(sorted(ignored)))


#: The files that a word of SCOREP_PROFILING_FORMAT stands for: bits of recorder/profile.h.
_FORMATS = {
    "default": 1 | 2 | 4 | 8,
    "none": 0,
    "json": 1,
    "callgrind": 2,
    "pstats": 4,
    "cubex": 8,
    "cube4": 8,
    "thread_sum": 16,
}
_SUFFIXES = {1: "json", 2: "callgrind", 4: "pstats", 8: "cubex", 16: "cubex"}

#: The memory of one call path, with its entry in the index.
_PATH_BYTES = 96


class Profile(typing.NamedTuple):
    """How the call-path profile is written.

    Attributes
    ----------
    name : str
        The name of its files, before the suffix.
    formats : int
        Which files, as bits. Besides Score-P's words there are json, callgrind and pstats,
        and several may be given, with commas between them.
    depth : int
        Deeper calls are one node. The default is a thousand, which is Python's own limit of
        recursion. Score-P's default is a hundred.
    """

    name: str = "profile"
    formats: int = _FORMATS["default"]
    depth: int = 1000

    @classmethod
    def from_environ(cls, environ) -> Profile:
        """Read the variables ``SCOREP_PROFILING_...``.

        Parameters
        ----------
        environ : mapping of str to str
            The environment. A value that isn't valid is reported, and the default is used.

        Returns
        -------
        Profile
            What they say.
        """
        name = environ.get("SCOREP_PROFILING_BASE_NAME") or cls().name
        if "/" in name or "\0" in name:
            warn_once(
                f"SCOREP_PROFILING_BASE_NAME={name!r} is not a file's name; 'profile' is used"
            )
            name = cls().name
        return cls(name, _formats(environ), _depth(environ))

    @property
    def file(self) -> str | None:
        """The name of the first file.

        Returns
        -------
        str or None
            None if no file is written.
        """
        bits = (bit for bit in _SUFFIXES if self.formats & bit)
        return next((f"{self.name}.{_SUFFIXES[bit]}" for bit in bits), None)


def _formats(environ) -> int:
    text = environ.get("SCOREP_PROFILING_FORMAT", "").strip().lower() or "default"
    formats = 0
    for word in text.split(","):
        bits = _FORMATS.get(word.strip())
        if bits is None:
            warn_once(
                f"SCOREP_PROFILING_FORMAT: {word.strip()!r} isn't written here, cube4 is instead"
            )
            bits = _FORMATS["cube4"]
        formats |= bits
    # Both have the same file.
    return formats & ~_FORMATS["cube4"] if formats & _FORMATS["thread_sum"] else formats


def _depth(environ) -> int:
    text = environ.get("SCOREP_PROFILING_MAX_CALLPATH_DEPTH", "").strip()
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**31:
        return int(text)
    if text:
        warn_once(
            f"SCOREP_PROFILING_MAX_CALLPATH_DEPTH={text!r} is not a depth; the default is used"
        )
    return Profile().depth


class Settings(typing.NamedTuple):
    """The measurement configuration of one recording.

    Attributes
    ----------
    tracing, profiling : bool
        Whether traces.otf2 is written, and whether a call-path profile is.
    directory : str
        The experiment directory as given; "" for a name made from the time.
    overwrite : bool
        Whether an existing experiment directory is renamed. Otherwise it is an error.
    total_memory : int
        Bytes for all buffers together, and as many for the call paths of a profile.
    filtering_file : str
        The file of rules that say which regions are left out, or "". See :mod:`.filtering`.
    verbose : bool
        Whether a message says on stderr where the results are.
    profile : Profile
        How the profile is written.
    """

    tracing: bool = True
    profiling: bool = False
    directory: str = ""
    overwrite: bool = True
    total_memory: int = 16_000 * 1024
    filtering_file: str = ""
    verbose: bool = False
    profile: Profile = Profile()

    @classmethod
    def from_environ(cls, environ=None) -> Settings:
        """Read the variables ``SCOREP_...``.

        Parameters
        ----------
        environ : mapping of str to str, optional
            The environment. If it is left out: ``os.environ``. A value that isn't valid is reported, and
            the default is used.

        Returns
        -------
        Settings
            What they say.
        """
        environ = os.environ if environ is None else environ
        _name_ignored(environ)
        return cls._read(environ, tracing=True)

    @classmethod
    def for_scorep(cls, environ) -> Settings:
        """Read the variables ``SCOREP_...`` with Score-P's own defaults.

        Parameters
        ----------
        environ : mapping of str to str
            The environment. Variables that only Score-P knows aren't reported.

        Returns
        -------
        Settings
            What they say.
        """
        return cls._read(environ, tracing=False)

    @classmethod
    def _read(cls, environ, tracing: bool) -> Settings:
        return cls(
            tracing=_flag(environ, "SCOREP_ENABLE_TRACING", tracing),
            profiling=_flag(environ, "SCOREP_ENABLE_PROFILING", not tracing),
            directory=environ.get("SCOREP_EXPERIMENT_DIRECTORY", ""),
            overwrite=_flag(environ, "SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY", True),
            total_memory=_size(environ, "SCOREP_TOTAL_MEMORY", 16_000 * 1024),
            filtering_file=environ.get("SCOREP_FILTERING_FILE", ""),
            verbose=_flag(environ, "SCOREP_VERBOSE", False),
            profile=Profile.from_environ(environ),
        )


def _stamp() -> str:
    return f"{time.strftime('%Y%m%d_%H%M')}_{time.monotonic_ns()}"


def _exists(path: str) -> FileExistsError:
    return FileExistsError(
        f"the experiment directory {path} exists, and "
        "SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY is false"
    )


def _make(path: str) -> None:
    """As os.makedirs(), which calls `os.path.exists`: that may be a mock of the notebook's."""
    try:
        os.mkdir(path)
    except FileNotFoundError:
        os.makedirs(path)


def _experiment_path(settings: Settings) -> str:
    folder = os.environ.get("HOLDFAST_TRACE_DIRECTORY", "")
    return os.path.abspath(settings.directory or os.path.join(folder, f"scorep-{_stamp()}"))


def make_directory(settings: Settings) -> str:
    """Create the experiment directory.

    An empty one is used. Any other existing one is renamed, with the time appended to its
    name. If a process records into it now, such as the program that started this one, it stays, and the
    time is appended to the new one's name.

    Parameters
    ----------
    settings : Settings
        Its `directory` and `overwrite` are used.

    Returns
    -------
    str
        The absolute path.

    Raises
    ------
    FileExistsError
        The directory exists, and `overwrite` is false.
    OSError
        It can't be made.
    """
    path = _experiment_path(settings)
    if os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path):
        return path
    if os.path.lexists(path):
        if not settings.overwrite:
            raise _exists(path)
        if os.path.isfile(path):  # of another program, perhaps the one that is to run
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        other = f"{path}-{_stamp()}"
        experiments.settle(path)  # before it has another name
        if os.path.isdir(path) and experiments.is_busy(path):
            warn(f"a process records into {path}; this one does into {other}")
            path = other
        else:
            os.rename(path, other)
    _make(path)
    return path


def check_directory(settings: Settings) -> str:
    """Find the directory that Score-P will make, and check that it can.

    Score-P would end the program if it could not. The directory is made and removed again; its parents stay.

    Parameters
    ----------
    settings : Settings
        Its `directory` and `overwrite` are used.

    Returns
    -------
    str
        The absolute path.

    Raises
    ------
    FileExistsError
        The directory exists, and `overwrite` is false.
    OSError
        It can't be made.
    """
    path = _experiment_path(settings)
    if not os.path.lexists(path):
        _make(path)
        os.rmdir(path)
    elif not settings.overwrite:
        raise _exists(path)
    return path


def settle_directory(environ) -> None:
    """Put the directory that Score-P will make into an environment with which a process starts.

    Parameters
    ----------
    environ : mutable mapping of str to str
        The environment. It is changed.

    Raises
    ------
    OSError
        The directory can't be made.
    """
    environ["SCOREP_EXPERIMENT_DIRECTORY"] = check_directory(Settings.for_scorep(environ))


class Prepared(typing.NamedTuple):
    """The arguments of `_recorder.open`.

    Attributes
    ----------
    path : str
        The directory, which exists.
    tracing, profiling : bool
        What to write.
    buffer_bytes : int
        The bytes of a buffer.
    rules : list of Rule
        The filter's rules.
    scorep : bool
        Whether Score-P records.
    profile : tuple
        The path of the profile's first file or None, the files' name, the formats, and how deep and how
        many paths may be.
    reserve_bytes : int
        What the recording leaves free on the directory's file system.
    """

    path: str
    tracing: bool
    profiling: bool
    buffer_bytes: int
    rules: list[filtering.Rule]
    scorep: bool
    profile: tuple[str | None, str, int, int, int]
    reserve_bytes: int


def _prepared(path: str, settings: Settings, rules, *, scorep: bool = False) -> Prepared:
    name, formats, depth = settings.profile
    file = f"{name}.cubex" if scorep else settings.profile.file
    profiling = settings.profiling and file is not None
    return Prepared(
        path,
        settings.tracing,
        profiling,
        0 if scorep else settings.total_memory,
        rules,
        scorep,
        (
            f"{path}/{file}" if profiling else None,
            name,
            formats,
            depth,
            settings.total_memory // _PATH_BYTES,
        ),
        0 if scorep else experiments.reserve(path),
    )


def prepare(directory=None, tracing=None, profiling=None, joins=False) -> Prepared:
    """Read the settings of a recording, and make its directory.

    Parameters
    ----------
    directory : str or os.PathLike, optional
        The experiment directory. Values of None are taken from the environment.
    tracing, profiling : bool, optional
        What to write.
    joins : bool
        Whether another process has made the directory.

    Returns
    -------
    Prepared
        What `_recorder.open` needs.

    Raises
    ------
    OSError
        The directory can't be made, or the filter file can't be read.
    RuntimeError
        The filter file can't be understood, or there is no such Score-P.
    """
    if loading.is_chosen():
        return _prepare_scorep(directory, tracing, profiling)
    settings = Settings.from_environ()
    given: dict[str, typing.Any] = {"tracing": tracing, "profiling": profiling}
    if directory:
        given["directory"] = os.fspath(directory)
    given = {name: value for name, value in given.items() if value is not None}
    settings = settings._replace(**given)
    rules = filtering.read(settings.filtering_file) if settings.filtering_file else []
    path = settings.directory if joins else make_directory(settings)
    if settings.verbose:
        warn(f"recording into {path}")
    return _prepared(path, settings, rules)


def _prepare_scorep(directory, tracing, profiling):
    """Do the same for Score-P. It reads its variables itself, so the arguments are put into these.
    Its own defaults apply: a profile, and no trace."""
    given = {"SCOREP_ENABLE_TRACING": tracing, "SCOREP_ENABLE_PROFILING": profiling}
    os.environ.update({name: str(on).lower() for name, on in given.items() if on is not None})
    if directory:
        os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = os.fspath(directory)
    settings = Settings.for_scorep(os.environ)
    rules = filtering.read(settings.filtering_file) if settings.filtering_file else []
    if not loading.is_preloaded():
        os.environ["SCOREP_EXPERIMENT_DIRECTORY"] = check_directory(settings)
    loading.load()
    path = loading.started_in() or os.environ.get("SCOREP_EXPERIMENT_DIRECTORY", "")
    return _prepared(path, settings, rules, scorep=True)
