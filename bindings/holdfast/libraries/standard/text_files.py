"""The codec of text files: the binary file below (files.py), and the position in the text.

`tell()` returns the position of a text file. After an iteration over its lines it doesn't. Then the position is
found from the text that was decoded ahead. No method returns how a file treats newlines. That is read from the
object's memory.
"""

from __future__ import annotations

import codecs as text_codecs
import ctypes
import functools
import io
import typing as t

from holdfast.carry import handles
from holdfast.codecs import register
from holdfast.libraries.standard import files


def _make_text(buffer, encoding, errors, newline, line_buffering, write_through, position):
    """If `position` is bytes, they are what was read ahead."""
    file = io.TextIOWrapper(buffer, encoding, errors, newline, line_buffering, write_through)
    if isinstance(position, bytes):
        _put_back_text(file, position)
    elif position is not None:
        file.seek(position)
    return file


def _make_closed(blank, *settings):
    file = io.TextIOWrapper(files.make_blank(*blank), *settings)
    file.close()
    return file


def _put_back_text(file: io.TextIOWrapper, ahead: bytes) -> None:
    # read(1) returns the first character, and decodes the others. readline(0) does so, too, but
    # from Python 3.13 on only if nothing was read before.
    files.put_back(file.fileno(), b"a" + ahead, lambda: file.read(1))


def _reduce_text(file: io.TextIOWrapper):
    standard = files.reduce_standard(file)
    if standard is not NotImplemented:
        return standard
    buffer = file.buffer
    settings = tuple(_settings_of(file).values())
    if file.closed:
        return _make_closed, (files.blank_of(buffer), *settings), files.attributes(file)
    position = _settle_text(file)
    return _make_text, (buffer, *settings, position), files.attributes(file)


def _take_text(new: io.TextIOWrapper):
    if new.closed:
        return io.TextIOWrapper.close
    position: t.Any = _settle_text(new)
    if new.seekable() and not new.readable():
        position = new.tell()
    settings = _settings_of(new)

    def give(here: io.TextIOWrapper) -> None:
        files.copy_attributes(here, new)
        before = _settings_of(here)
        if before != settings:  # what is given can't be set once something was read
            changed = {name: one for name, one in settings.items() if one != before[name]}
            if "encoding" in changed:
                changed["errors"] = new.errors
            here.reconfigure(**changed)
        if here.seekable():
            files.seek_anew(here, position)
        elif here.readable():
            with files.at_its_end(here.fileno()):
                here.read()
            if position is not None:
                _put_back_text(here, position)

    return give


def _settings_of(file: io.TextIOWrapper) -> dict[str, t.Any]:
    """By the names that `reconfigure` has for them."""
    return {
        "encoding": file.encoding,
        "errors": file.errors,
        "newline": _newline_of(file),
        "line_buffering": file.line_buffering,
        "write_through": file.write_through,
    }


def _settle_text(file: io.TextIOWrapper) -> int | bytes | None:
    if file.writable():
        files.flush(file)
    if not file.readable():
        return None
    if not file.seekable():
        return _read_ahead_text(file)
    try:
        position = file.tell()
    except OSError:  # it was iterated over
        position = _position_after_iteration(file)
    files.drop_ahead(file, file.buffer, position)
    return position


def _read_ahead_text(file: io.TextIOWrapper) -> bytes | None:
    """The bytes of the text that was decoded from a pipe and not read yet."""
    files.must_be_alone()
    buffer, encoding = file.buffer, file.encoding
    if not isinstance(buffer, io.BufferedReader) or "a".encode(encoding) != b"a":
        raise ValueError(
            f"text in {encoding} was read ahead from a pipe, and its bytes can't be counted"
        )
    with files.at_its_end(buffer.fileno()):
        if buffer.peek():
            raise ValueError("its binary buffer was read directly")
        ahead = file.read().encode(encoding, file.errors)
    if not ahead:
        return None
    _put_back_text(file, ahead)
    return ahead


def _position_after_iteration(file: io.TextIOWrapper) -> int:
    """The program's position, which a text file doesn't return after an iteration over it.

    All text that is decoded already ends where the buffer below stands. So this text is read, and
    the position is found by decoding bytes in front of that place until they give the same text.
    """
    files.must_be_alone()
    if "a".encode(file.encoding) != b"a" or file.errors != "strict":
        raise ValueError("it was iterated over, and its encoding doesn't show its position")
    buffer: t.Any = file.buffer
    end, pieces = buffer.tell(), []
    while True:
        piece = file.read(1)
        if not piece or buffer.tell() != end:
            break
        pieces.append(piece)
    ahead = "".join(pieces)
    file.flush()  # allows tell() and seek() again
    position = _start_of(file, ahead, end)
    file.seek(position)
    return position


def _start_of(file: t.Any, ahead: str, end: int) -> int:
    size = len(ahead.encode(file.encoding))
    translates = _newline_of(file) is None
    lines = ahead.count("\n") if translates else 0
    for returns in sorted(range(lines + 1), key=lambda count: count not in (0, lines)):
        for cut in range(4):  # so many bytes of a character were read, and its rest wasn't
            start = end - cut - returns - size
            if start < 0:
                continue
            file.buffer.seek(start)
            decoder: t.Any = text_codecs.getincrementaldecoder(file.encoding)(file.errors)
            if translates:
                decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
            try:
                if decoder.decode(file.buffer.read(end - start)) == ahead:
                    return start
            except UnicodeDecodeError:
                pass  # it isn't the start of a character
    raise ValueError("it was iterated over, and changed since")


# ---- the `newline` of a text file
#
# io.TextIOWrapper has no attribute for it, so it is read from the object's memory. There are flags of a byte each, and
# pointers. Those that show it are equal in files of the same `newline`, and differ in files of different ones. For
# "\r\n" each file has a string of its own. So if no other `newline` fits, it is that.

_NEWLINES = (None, "", "\n", "\r")
_POINTER_SIZE = ctypes.sizeof(ctypes.c_void_p)


def _memory_of(file: io.TextIOWrapper) -> bytes:
    return ctypes.string_at(id(file), type(file).__basicsize__)


def _fitting(memories: list[list[bytes]], start: int) -> list[slice]:
    """The places of one word that show the `newline`: none, the flags in it, or the whole word, a
    pointer."""
    word = slice(start, start + _POINTER_SIZE)
    if any(len({memory[word] for memory in alike}) > 1 for alike in memories):
        return []
    different = [
        slice(at, at + 1)
        for at in range(start, start + _POINTER_SIZE)
        if len({alike[0][at] for alike in memories}) > 1
    ]
    flags = all(alike[0][place][0] <= 1 for alike in memories for place in different)
    return different if flags else [word]


@functools.cache
def _calibrated() -> tuple[list[slice], dict[tuple[bytes, ...], str | None]]:
    """The places that show the `newline`, and which one their contents mean."""
    alike = [[io.TextIOWrapper(io.BytesIO(), newline=one) for _ in "123"] for one in _NEWLINES]
    memories = [[_memory_of(file) for file in group] for group in alike]
    starts = range(0, len(memories[0][0]), _POINTER_SIZE)
    places = [place for start in starts for place in _fitting(memories, start)]
    newlines = {
        tuple(group[0][at] for at in places): one for group, one in zip(memories, _NEWLINES)
    }
    return places, newlines


def _newline_of(file: io.TextIOWrapper) -> str | None:
    places, newlines = _calibrated()
    memory = _memory_of(file)
    return newlines.get(tuple(memory[place] for place in places), "\r\n")


register(handles.Exact(io.TextIOWrapper, _reduce_text, _take_text))
