"""The codec of ZIP archives that are read.

The reader of an archive has a position of its own in the file, which can't be carried. So the file is opened anew,
with an offset of its own. Its handle has the path, and shows whether it is still the same file. An archive that is
written is unserializable.
"""

from __future__ import annotations

import io
import os
import threading
import typing as t
import zipfile

from holdfast.carry import handles
from holdfast.codecs import register


def _file_below(value: t.Any, file: t.Any) -> tuple[tuple, str]:
    """The path and identity of the file below, and its name."""
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


def _make_archive(attributes, place, name):
    archive = zipfile.ZipFile.__new__(zipfile.ZipFile)
    archive.__dict__.update(attributes)
    archive._lock = threading.RLock()
    archive.fp = place and _open_below(place, name)
    archive._filePassed = 0  # the archive owns the file
    archive._fileRefCnt = int(place is not None)
    return archive


def _reduce_archive(value: zipfile.ZipFile):
    if value.mode != "r":
        raise ValueError("a ZipFile that is written to")
    here = {"_lock", "fp", "_filePassed", "_fileRefCnt"}
    attributes = {name: item for name, item in vars(value).items() if name not in here}
    below = (None, None) if value.fp is None else _file_below(value, value.fp)
    return _make_archive, (attributes, *below)


register(handles.Exact(zipfile.ZipFile, _reduce_archive))
