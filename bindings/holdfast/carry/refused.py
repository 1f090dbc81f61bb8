"""Types whose values pickle would change without an error: such a value stays in its process.

An iterator over a dict would become one over a copied list. The copy of a temporary file would delete the file at
its end. docs/not-carried.md has the whole list, and the reasons.
"""

from __future__ import annotations

import typing as t

from holdfast.codecs import Codec, register

_ITERATORS = (
    *(f"dict_{way}{name}iterator" for way in ("", "reverse") for name in ("key", "value", "item")),
    "odict_iterator",
    "set_iterator",
)
_COMPRESSED = "its decompressed data is in this process"
REASONS = {
    **{f"builtins.{name}": "it iterates over an object of this process" for name in _ITERATORS},
    "itertools.groupby": "a copy would lose its current group",
    "itertools._grouper": "it belongs to another iterator",
    "gzip.GzipFile": _COMPRESSED,
    "bz2.BZ2File": _COMPRESSED,
    "lzma.LZMAFile": _COMPRESSED,
    "tempfile._TemporaryFileWrapper": "it deletes its file at its end",
    "argparse.Action": "a parser compares some texts by identity",
    "argparse._ActionsContainer": "a parser compares some texts by identity",
    "unittest.mock._patch": "its changes are in this process",
    "unittest.mock._patch_dict": "its changes are in this process",
}


class Refused(Codec):
    types = tuple(REASONS)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        kind = type(value)
        base = next(
            one for one in kind.__mro__ if f"{one.__module__}.{one.__qualname__}" in REASONS
        )
        reason = REASONS[f"{base.__module__}.{base.__qualname__}"]
        raise TypeError(f"cannot pickle '{kind.__name__}' object: {reason}")


register(Refused())
