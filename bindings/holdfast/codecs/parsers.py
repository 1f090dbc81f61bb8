"""The codec of argparse's parsers and actions.

`argparse.SUPPRESS` is a text that they compare by identity; a pickle keeps only what it says.
"""

from __future__ import annotations

import argparse
import copyreg
import typing as t

from . import Codec, register


def _find_suppress():
    return argparse.SUPPRESS


class _Suppress:
    def __reduce__(self):
        return _find_suppress, ()


class _Parsers(Codec):
    types = ("argparse.Action", "argparse._ActionsContainer")

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value).__reduce_ex__ is not object.__reduce_ex__:
            return NotImplemented
        state = {
            name: _Suppress() if item is argparse.SUPPRESS else item
            for name, item in vars(value).items()
        }
        return copyreg.__newobj__, (type(value),), state  # type: ignore[attr-defined]


register(_Parsers())
