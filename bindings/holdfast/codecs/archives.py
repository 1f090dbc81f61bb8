"""Codecs of compressed files and archives that are read, and of temporary files with names.

A reader of these keeps the state of a decompressor above its file, which can't be carried. So the
file is opened anew, with an offset of its own, and read up to where the reader was: where it
lies, and that it is the same file, is known from its handle. One that is written is unserializable.

A temporary file deletes itself when the object that stands for it goes. If a cell changed it, the
main worker's object is replaced by another one, and must then leave the file alone.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tempfile
import threading
import typing as t
import weakref
import zipfile

from .. import _context
from . import handles, register

_FILE_ATTRIBUTES = {gzip.GzipFile: "fileobj", bz2.BZ2File: "_fp", lzma.LZMAFile: "_fp"}


def _file_below(value: t.Any, file: t.Any) -> tuple[tuple, str]:
    """The place of the file below, and its name."""
    raw = getattr(file, "raw", file)
    place = handles.place_of(raw) if isinstance(raw, io.FileIO) else None
    if place is None:
        raise ValueError(
            f"a {type(value).__name__} of something that isn't a regular file with a name"
        )
    return tuple(place), raw.name


def _open_below(place, name):
    raw = io.FileIO(handles.reopen(handles.Place(*place), os.O_RDONLY), "rb")
    if not isinstance(name, int):
        raw.name = name
    return io.BufferedReader(raw)


# ---- gzip, bz2, lzma


def _make_reader(cls, place, name, position):
    file = _open_below(place, name)
    reader = cls(fileobj=file, mode="rb") if cls is gzip.GzipFile else cls(file)
    if cls is gzip.GzipFile:
        reader.myfileobj = file  # to be closed with it
    else:
        reader._closefp = True
    reader.seek(position)
    return reader


def _make_closed_reader(cls):
    file = io.BytesIO()
    reader = cls(fileobj=file, mode="rb") if cls is gzip.GzipFile else cls(file)
    reader.close()
    return reader


def _reduce_reader(value):
    cls = type(value)
    if value.closed:
        name = {"name": value.name} if cls is gzip.GzipFile else None
        return _make_closed_reader, (cls,), name
    if not value.readable():
        raise ValueError(f"a {cls.__name__} that is written to: the compressor can't be carried")
    position = value.tell()
    return _make_reader, (cls, *_file_below(value, getattr(value, _FILE_ATTRIBUTES[cls])), position)


# ---- zipfile


def _make_archive(attributes, place, name):
    archive = zipfile.ZipFile.__new__(zipfile.ZipFile)
    archive.__dict__.update(attributes)
    archive._lock = threading.RLock()
    archive.fp = place and _open_below(place, name)
    archive._filePassed = 0  # the file is its own
    archive._fileRefCnt = int(place is not None)
    return archive


def _reduce_archive(value: zipfile.ZipFile):
    if value.mode != "r":
        raise ValueError("a ZipFile that is written to")
    here = {"_lock", "fp", "_filePassed", "_fileRefCnt"}
    attributes = {name: item for name, item in vars(value).items() if name not in here}
    below = (None, None) if value.fp is None else _file_below(value, value.fp)
    return _make_archive, (attributes, *below)


# ---- tempfile

_Temporary: t.Any = tempfile._TemporaryFileWrapper
_owners: weakref.WeakValueDictionary[str, t.Any] = weakref.WeakValueDictionary()


def _make_temporary(file, name, options):
    made = _Temporary(file, name, *options)
    before = _owners.get(name)
    if before is not None:
        before._closer.delete = False
    if file.closed:
        made._closer.delete = False
    _owners[name] = made
    return made


def _reduce_temporary(value):
    if not _context.in_store():
        raise ValueError("a temporary file that deletes itself stays in its process")
    _owners[value.name] = value
    closer = value._closer
    known = (closer.delete, getattr(closer, "delete_on_close", None))
    return _make_temporary, (value.file, value.name, tuple(k for k in known if k is not None))


def _keep_all():
    """IPython's end empties the namespace."""
    for owner in list(_owners.values()):
        owner._closer.delete = False


handles.table.handed_over.append(_keep_all)
for _cls in _FILE_ATTRIBUTES:
    register(handles.Exact(_cls, _reduce_reader))
register(handles.Exact(zipfile.ZipFile, _reduce_archive))
register(handles.Exact(_Temporary, _reduce_temporary))
