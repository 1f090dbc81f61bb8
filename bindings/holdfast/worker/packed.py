"""A message's content as bytes; of what a cell shows, in pieces.

What is shown may be a text of megabytes: a picture, a page with an interactive plot. Such a text is
escaped by C code of ours (json_text.c) and travels in a piece of its own, so that it is copied once
on its way to the frontend. All else is as the Session packs it: it is given a mark in the text's
place.
"""

from __future__ import annotations

import os
import typing as t

from holdfast import _store

from .control import Pieces

_LARGE = 1 << 16  # characters


def packed(pack: t.Callable[[t.Any], bytes], content: t.Any) -> bytes | Pieces:
    """The bytes of a message's content, which `pack` makes of anything."""
    shown = content.get("data") if isinstance(content, dict) else None
    if not isinstance(shown, dict):
        return pack(content)
    large = {k: v for k, v in shown.items() if type(v) is str and len(v) >= _LARGE}
    try:
        texts = [_store._json_text(text) for text in large.values()]
    except UnicodeEncodeError:
        texts = []
    if not texts:
        return pack(content)
    mark = os.urandom(16).hex()
    left = pack({**content, "data": {**shown, **dict.fromkeys(large, mark)}})
    pieces = Pieces()
    for text in texts:
        before, left = left.split(b'"%s"' % mark.encode(), 1)
        pieces += before, text
    pieces.append(left)
    return pieces
