"""Codecs of binary files: raw and buffered; with them, the standard streams of a worker.

The processes share the open file description, and so its offset. They don't share what Python keeps in its
own buffer: bytes that were read ahead, characters that were decoded. So before a file is encoded, written
bytes are flushed, and the offset is set back by the bytes that were read ahead. Then the offset is where the
program is, and either process may go on. Bytes that were read ahead from a pipe can't be given back. They are
carried, and put into the new buffer.

This takes several steps, and no other thread may use the file between them. So a file that has read ahead is
unserializable while a thread runs that might use it.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import socket
import stat
import sys
import typing as t

from holdfast.base.user_threads import alone
from holdfast.carry import handles
from holdfast.codecs import register

# ---- raw files


def _flags(mode: str) -> int:
    flags = os.O_RDWR if "+" in mode else os.O_RDONLY if "r" in mode else os.O_WRONLY
    return flags | os.O_APPEND if "a" in mode else flags


def _make_raw(number, place, mode, offset):
    if number is None:  # a standard descriptor: each process has its own
        return io.FileIO(place, mode, closefd=False)
    fd = handles.table.descriptor(number, place and handles.Place(*place), _flags(mode))
    raw = io.FileIO(fd, mode)
    if offset is not None:
        os.lseek(fd, offset, os.SEEK_SET)
    return handles.table.adopt(raw, number, place and handles.Place(*place))


def attributes(file: t.Any) -> dict[str, t.Any] | None:
    """The attributes of a file, such as `mode` and `name`. A number as name is a descriptor: left
    out."""
    found = dict(getattr(file, "__dict__", {}))
    found.pop("__IOBase_closed", None)
    if isinstance(found.get("name"), int):
        del found["name"]
    return found or None


def _reduce_raw(raw: io.FileIO):
    if raw.closed:
        return _make_closed, blank_of(raw)
    fd = raw.fileno()
    if fd <= 2:
        return _make_raw, (None, fd, raw.mode, None)
    number, place = handles.handle_of(raw)
    return (
        _make_raw,
        (number, place and tuple(place), raw.mode, handles.offset_of(fd)),
        attributes(raw),
    )


def _take_raw(new: io.FileIO):
    """The offset is the description's."""
    return io.FileIO.close if new.closed else lambda here: copy_attributes(here, new)


def copy_attributes(here: t.Any, new: t.Any) -> None:
    vars(here).update(attributes(new) or {})


def make_blank(mode, kind, attributes, number=0):
    """A file of /dev/null with the attributes of a closed one: raw, or of a kind of BUFFERED."""
    access = "+" if "+" in mode else ""
    raw = io.FileIO(os.open(os.devnull, _flags(mode[:1].replace("x", "w") + access)), mode)
    raw.__dict__.update(attributes or {})
    handles.table.note_closed(raw, number)
    return BUFFERED[kind](raw) if kind else raw


def blank_of(file: t.Any) -> tuple[t.Any, ...]:
    """The arguments of `make_blank` for a closed binary file of any kind."""
    raw = getattr(file, "raw", file)
    if type(raw) is not io.FileIO:
        return "rb", None, None
    number = handles.table.number_if_known(raw)
    return raw.mode, None if raw is file else type(file).__name__, attributes(raw), number


def _make_closed(*blank):
    file = make_blank(*blank)
    file.close()
    return file


# ---- buffered files

BUFFERED = {
    "BufferedReader": io.BufferedReader,
    "BufferedWriter": io.BufferedWriter,
    "BufferedRandom": io.BufferedRandom,
}


def _make_buffered(kind, raw, size, position, ahead):
    file = BUFFERED[kind](raw, max(size, len(ahead)))
    if position is not None:
        file.seek(position)
    if ahead:
        put_back(raw.fileno(), ahead, file.peek)
    return file


def _reduce_buffered(file):
    kind = type(file).__name__
    if file.closed:
        return _make_closed, blank_of(file), attributes(file)
    size = file.__sizeof__() - type(file).__basicsize__
    position, ahead = _settle_buffered(file)
    return _make_buffered, (kind, file.raw, size, position, ahead), attributes(file)


def _settle_buffered(file) -> tuple[int | None, bytes]:
    """Make the file's position the offset of the description. Returns the position, or the bytes
    that were read ahead from a pipe."""
    if file.writable():
        flush(file)
    if not file.readable():
        return None, b""
    if file.seekable():
        position = file.tell()
        drop_ahead(file, file, position)
        return position, b""
    must_be_alone()
    with at_its_end(file.fileno()):
        return None, bytes(file.peek())


def _take_buffered(new):
    if new.closed:
        return type(new).close
    position, ahead = _settle_buffered(new)
    if new.seekable():
        position = new.tell()

    def give(here):
        copy_attributes(here, new)
        if position is not None:
            seek_anew(here, position)
        elif here.readable():
            with at_its_end(here.fileno()):
                here.read()
            if ahead:
                put_back(here.fileno(), ahead, here.peek)

    return give


def seek_anew(file, position: int) -> None:
    """Seek, and drop all that was read: within what was, a seek makes no system call."""
    if file.readable():
        file.seek(0, os.SEEK_END)
    file.seek(position)


def flush(file) -> None:
    if not file.seekable():
        poll = select.poll()
        poll.register(file.fileno(), select.POLLOUT)
        if not poll.poll(0):
            raise ValueError("its other end doesn't read the bytes that must still be written")
    file.flush()


def drop_ahead(file, buffer, position: int) -> None:
    """Drop what was read ahead: seek so that the description's offset is at the file's position."""
    if type(getattr(buffer, "raw", None)) is not io.FileIO:
        return  # below it is no description that processes share
    if handles.offset_of(buffer.fileno()) != position:
        must_be_alone()
        seek_anew(file, position)


def must_be_alone() -> None:
    if not alone():
        raise ValueError("it has read ahead, and other threads run that may be reading from it")


@contextlib.contextmanager
def at_its_end(fd: int, other: int = -1) -> t.Iterator[None]:
    """For a moment, let the descriptor be one that has nothing to read, or `other`."""
    kept = os.dup(fd)
    try:
        if other >= 0:
            os.dup2(other, fd, inheritable=False)
        elif stat.S_ISSOCK(os.fstat(fd).st_mode):
            ours, theirs = socket.socketpair()
            theirs.close()
            os.dup2(ours.fileno(), fd, inheritable=False)
            ours.close()
        else:
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(null, fd, inheritable=False)
            os.close(null)
        yield
    finally:
        os.dup2(kept, fd, inheritable=False)
        os.close(kept)


def put_back(fd: int, ahead: bytes, read: t.Callable[[], object]) -> None:
    """Put these bytes into an empty buffer, which `read` fills."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * len(ahead))
        theirs.sendall(ahead)
        with at_its_end(fd, ours.fileno()):
            read()


# ---- the standard streams

_STANDARD = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


def _standard(name):
    return getattr(sys, name)


def reduce_standard(file: t.Any) -> t.Any:
    """By the file's name in `sys`, if it has one: each process has its own standard streams."""
    for name in _STANDARD:
        if file is getattr(sys, name, None):
            return _standard, (name,)
    return NotImplemented


register(handles.Exact(io.FileIO, _reduce_raw, _take_raw))
for _cls in BUFFERED.values():
    register(handles.Exact(_cls, _reduce_buffered, _take_buffered))
