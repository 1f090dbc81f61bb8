"""The directories of recordings on the disk: which there are, how large they may be, how they are removed.

A recording without a given directory gets one of its own, so an hour of work leaves many of them. `Kept` limits
those of one kernel in bytes and in number: the oldest of the recordings that the kernel has named are removed. A
recording stays if a person named or moved it, or put a file into it. It also stays while a view shows it or a
process still records.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
import typing

from holdfast import _recorder

from .messages import warn_once

#: What is kept if HOLDFAST_TRACE_LIMIT doesn't say otherwise.
LIMIT_BYTES = 1 << 30
#: As many as two times ``--repeat 100`` leave.
MOST = 200
# It ends the wait for a process in another container, at whose death we can't look.
_WAIT_SECONDS = 60.0
#: Between two looks of who waits.
LOOK_SECONDS = 0.001
_AUTOMATIC = re.compile(r"scorep-\d{8}_\d{4}_\d+")
_LIMIT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.I)
# What recorders write into a directory. SCOREP_PROFILING_BASE_NAME gives `profile` another name.
_OWN = re.compile(
    r"traces(\.otf2|\.def)?|parts|log-\d+|sources\.json|lines-.*\.bin|profile\.\w+"
    r"|scorep\.(cfg|filter|fini\.log)|MANIFEST\.md"
)

#: Directories that a view may show now: it reads more of its trace when a user zooms in.
shown: set[str] = set()


def is_automatic(directory: str) -> bool:
    """Return whether a directory has a name that the recorder made.

    Parameters
    ----------
    directory : str
        Its path.

    Returns
    -------
    bool
        Whether it is like ``scorep-<date>_<ticks>``.
    """
    return _AUTOMATIC.fullmatch(os.path.basename(directory)) is not None


def others(directory: str) -> list[str]:
    """Return what a directory has besides a recording.

    Parameters
    ----------
    directory : str
        Its path.

    Returns
    -------
    list of str
        Names of files and directories that no recorder has written.

    Raises
    ------
    OSError
        It can't be read.
    """
    return sorted(name for name in os.listdir(directory) if not _OWN.fullmatch(name))


def is_recording(directory: str) -> bool:
    """Return whether there is a recording in a directory.

    Parameters
    ----------
    directory : str
        Its path.

    Returns
    -------
    bool
        Whether it is a directory with an anchor file or a profile, or one that the recorder named.
    """
    if not os.path.isdir(directory) or os.path.islink(directory):
        return False
    names = os.listdir(directory)
    return is_automatic(directory) or any(
        name == "traces.otf2" or name.startswith("profile.") for name in names
    )


def size(directory: str) -> int:
    """Return how large a directory is.

    Parameters
    ----------
    directory : str
        Its path.

    Returns
    -------
    int
        The bytes of its files; 0 if it isn't there.
    """
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                pass  # it was removed meanwhile
    return total


def is_busy(directory: str) -> bool:
    """Return whether a process records into a directory now.

    Parameters
    ----------
    directory : str
        Its path.

    Returns
    -------
    bool
        Whether one does, or has yet to write what it recorded.
    """
    return _recorder.state(directory) in ("ended", "recording")


def await_trace(directory: str) -> None:
    """Wait until the trace of a recording that has ended is written.

    A cell's trace may be written after its reply. If its process died before that, it is written here, from the log
    that the process left.

    Parameters
    ----------
    directory : str
        The recording's path. If there is nothing to wait for, the call returns at once.
    """
    for _ in looks(directory):
        time.sleep(LOOK_SECONDS)


def looks(directory: str) -> typing.Iterator[None]:
    """Wait as `await_trace` does, for a caller that sleeps in its own way.

    Parameters
    ----------
    directory : str
        The recording's path.

    Yields
    ------
    None
        It isn't written yet: the caller sleeps, and looks again.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while (state := _recorder.state(directory)) == "ended" and time.monotonic() < deadline:
        yield
    if state == "left":
        settle(directory)


def settle(directory: str) -> None:
    """Write what a process has left in a directory, or wait for the one that does.

    Parameters
    ----------
    directory : str
        The recording's path. If nothing was left, or it can't be written, the call returns at once.
    """
    if _recorder.state(directory) == "left":
        with contextlib.suppress(OSError, RuntimeError):  # whoever reads it finds no trace
            _recorder.recover(directory)


def remove(directory: str) -> list[str]:
    """Remove a recording, and its directory if nothing else is in it.

    Parameters
    ----------
    directory : str
        Its path.

    Returns
    -------
    list of str
        What else is in it, and stays.

    Raises
    ------
    OSError
        It can't be removed.
    """
    left = others(directory)
    if not left:
        shutil.rmtree(directory)
        return left
    for name in set(os.listdir(directory)) - set(left):
        path = os.path.join(directory, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    return left


def limit() -> int:
    """Read HOLDFAST_TRACE_LIMIT.

    Returns
    -------
    int
        Bytes; 0: there is no limit.
    """
    return _size_in("HOLDFAST_TRACE_LIMIT", LIMIT_BYTES, "1G")


def reserve(directory: str) -> int:
    """Read HOLDFAST_DISK_RESERVE.

    Parameters
    ----------
    directory : str
        Where something is to be recorded.

    Returns
    -------
    int
        How many bytes of its file system a recording leaves free; by default a twentieth of all, and a GiB
        at most.
    """
    try:
        least = min(shutil.disk_usage(directory).total // 20, LIMIT_BYTES)
    except OSError:  # whoever writes there will say what is wrong
        least = 0
    return _size_in("HOLDFAST_DISK_RESERVE", least, "the smaller of 1G and 5 % of the file system")


def _size_in(variable: str, default: int, shown: str) -> int:
    """The bytes that a variable of the environment says."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    found = _LIMIT.fullmatch(text)
    if found is None:
        warn_once(f"{variable}={text!r} is no size like 500M or 2G; taken as {shown}")
        return default
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))


class Kept:
    """The recordings that this kernel named, the oldest first.

    Attributes
    ----------
    removed : int
        How many have gone.
    """

    def __init__(self) -> None:
        self.removed = 0
        self._sizes: dict[str, int] = {}

    def note(self, run: str) -> None:
        """Note a recorded cell, and remove the oldest recordings if there are too many.

        Parameters
        ----------
        run : str
            What the frontend reports of it, as JSON (kernel/session/runs.c).
        """
        known = json.loads(run)
        directory = known.get("trace", "")
        if not known.get("automatic") or not os.path.isabs(directory):
            return
        for last in list(self._sizes)[-1:]:  # it may have been written since
            self._sizes[last] = size(last)
        self._sizes[directory] = size(directory)
        most = limit()
        total = sum(self._sizes.values())
        for oldest in list(self._sizes)[:-1] if most else ():
            if total <= most and len(self._sizes) <= MOST:
                break
            if oldest in shown:
                continue
            bytes_ = self._sizes[oldest]
            if self._remove(oldest):
                total -= bytes_

    def _remove(self, directory: str) -> bool:
        """Whether it isn't counted any more: it was removed, or a person has put something into
        it."""
        try:
            settle(directory)
            if is_busy(directory):
                return False
            if not os.path.islink(directory) and not others(directory):
                shutil.rmtree(directory)
                self.removed += 1
        except FileNotFoundError:
            pass  # removed or moved already
        except OSError:
            return False
        del self._sizes[directory]
        return True
