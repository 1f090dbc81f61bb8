"""Packs the data of a view: JSON, and behind it the numbers in columns.

web/src/columns.js unpacks them, and says what each byte means. A column may be any object with a buffer, or any
iterable. It is written as planes of bytes: the lowest bytes of all numbers, then the next bytes, and so on. These
are compressed well, and need neither NumPy nor a loop over bytes in Python. Times are made smaller first: `begin` is
subtracted, and a sorted column is written as its differences.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import sys
from array import array
from collections.abc import Iterable, Mapping
from operator import sub
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.pages import schema

# The kind of a column, by the name of its place in the data. See web/schema/views.json.
DELTAS = {"locations": ("begin",), "tracks": ("time",)}
INTEGERS = {
    "locations": ("duration", "depth", "region", "count", "busy", "longest"),
    "paths": ("depth", "region", "visits", "inclusive"),
    "costs": ("path", "visits", "inclusive"),
    "table": ("region", "visits", "inclusive", "exclusive"),
}
FLOATS = ("values", "min", "max")
# Of the 23 bits of a number's mantissa 10 are kept, rounded: three digits are shown.
_HALF, _KEPT = 1 << 12, ~((1 << 13) - 1) & 0xFFFFFFFF


def _integers(values: Iterable[int]) -> array:
    if isinstance(values, array) and values.typecode == "q":
        return values
    tolist = getattr(values, "tolist", None)
    return array("q", map(int, tolist() if tolist else values))


def _planes(values: array, used: int) -> bytes:
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    raw = values.tobytes()
    return b"".join(raw[plane :: values.itemsize] for plane in range(used))


class Packer:
    """Collect columns; each becomes a reference in the JSON."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.times: dict[tuple[int, int], dict[str, Any]] = {}  # by the column's id, and begin

    def _put(self, data: bytes, count: int, planes: int, kind: str) -> dict[str, Any]:
        place = {"$": [self.size, count, planes, kind]}
        self.parts.append(data)
        self.size += len(data)
        return place

    def integers(self, values: Iterable[int], kind: str = "int") -> dict[str, Any]:
        """Add a column of numbers that aren't negative.

        Parameters
        ----------
        values : iterable of int
            The numbers.
        kind : str
            The kind of the column, as web/src/columns.js knows it.

        Returns
        -------
        dict
            The reference to the column.

        Raises
        ------
        ValueError
            If a number is negative.
        """
        numbers = _integers(values)
        if numbers and min(numbers) < 0:
            raise ValueError("a column of the view has a negative number")
        planes = (max(numbers, default=0).bit_length() + 7) // 8 or 1
        return self._put(_planes(numbers, planes), len(numbers), planes, kind)

    def deltas(self, values: Iterable[int], begin: int) -> dict[str, Any]:
        """Add a column of numbers as differences.

        Zigzag: 0, −1, 1, −2 … are 0, 1, 2, 3 … Several tracks may have one column of times.

        Parameters
        ----------
        values : iterable of int
            The numbers.
        begin : int
            The number before the first.

        Returns
        -------
        dict
            The reference to the column.
        """
        place = self.times.get((id(values), begin))
        if place is None:
            place = self.times[id(values), begin] = self._deltas(values, begin)
        return place

    def _deltas(self, values: Iterable[int], begin: int) -> dict[str, Any]:
        numbers = _integers(values)
        before = array("q", [begin]) + numbers[:-1]
        differences = array("q", map(sub, numbers, before))
        folded = array("q", [2 * one if one >= 0 else -2 * one - 1 for one in differences])
        return self.integers(folded, "delta")

    def floats(self, values: Iterable[float | None]) -> dict[str, Any]:
        """Add a column of numbers with a shortened mantissa.

        Parameters
        ----------
        values : iterable of float or None
            The numbers; None becomes NaN.

        Returns
        -------
        dict
            The reference to the column.
        """
        numbers = array("f", [math.nan if one is None else one for one in values])
        bits = array("I", numbers.tobytes())
        numbers = array("f", array("I", [one + _HALF & _KEPT for one in bits]).tobytes())
        return self._put(_planes(numbers, 4), len(numbers), 4, "float")

    def bytes(self, data: Any) -> bytes:
        """Join the JSON and the columns.

        Parameters
        ----------
        data : object
            The JSON, with references to the columns.

        Returns
        -------
        bytes
            The length of the JSON, the JSON, and the columns.
        """
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        return len(text).to_bytes(4, "little") + text + b"".join(self.parts)


def _packed(packer: Packer, kind: str, item: Mapping[str, Any], begin: int) -> dict[str, Any]:
    done = dict(item)
    for name in DELTAS.get(kind, ()):
        done[name] = packer.deltas(item[name], begin)
    for name in INTEGERS.get(kind, ()):
        if name in item:
            done[name] = packer.integers(item[name])
    if "costs" in item:
        done["costs"] = _packed(packer, "costs", item["costs"], begin)
    for series in done.get("series", ()):
        series.update({name: packer.floats(series[name]) for name in FLOATS if series.get(name)})
    return done


def _track(track: schema.Track) -> schema.Track:
    """A copy of the track, down to its series: `_packed` changes these."""
    return {**track, "series": [series.copy() for series in track["series"]]}


def pack(data: schema.Shown) -> bytes:
    """Pack the data of a view.

    Parameters
    ----------
    data : holdfast.pages.schema.Shown
        The data.

    Returns
    -------
    bytes
        The bytes that web/src/columns.js reads.
    """
    begin = int(data.get("origin", data["begin"]))
    packer = Packer()
    done: dict[str, Any] = {name: value for name, value in data.items() if name != "origin"}
    done["begin"], done["end"] = int(data["begin"]) - begin, int(data["end"]) - begin
    if "tracks" in data:
        tracks = [_track(track) for track in data["tracks"]]
        done["tracks"] = [_packed(packer, "tracks", track, begin) for track in tracks]
    if "locations" in data:
        done["locations"] = [_packed(packer, "locations", i, begin) for i in data["locations"]]
    if "paths" in data:
        done["paths"] = [_packed(packer, "paths", item, begin) for item in data["paths"]]
    if "table" in data:
        done["table"] = _packed(packer, "table", data["table"], begin)
    if data.get("previous"):
        before = _packed(packer, "table", data["previous"]["table"], begin)
        done["previous"] = {**data["previous"], "table": before}
    done["cells"] = [_cell(cell, begin) for cell in data.get("cells", ())]
    return packer.bytes(done)


def _cell(cell: schema.Cell, begin: int) -> schema.Cell:
    end = cell.get("end")
    return {
        **cell,
        "begin": int(cell["begin"]) - begin,
        "end": None if end is None else int(end) - begin,
    }


def text(data: bytes) -> str:
    """Write bytes as text that a script element can hold.

    Parameters
    ----------
    data : bytes
        Any bytes.

    Returns
    -------
    str
        They are compressed, in base64.
    """
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii")
