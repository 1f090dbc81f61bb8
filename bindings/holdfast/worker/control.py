"""The worker's end of the control channel (docs/control-protocol.md), which C code has (worker/channel.h).

Any thread may send (a print in a thread is a frame). Only the main thread receives. Another thread that needs
an answer (`input()` in a thread) waits until the main thread passes it on.
"""

from __future__ import annotations

import os
import typing as t

from holdfast import _store
from holdfast._store import Channel, ChannelClosed

__all__ = ["VERSION", "Channel", "ChannelClosed", "Frame", "changes_nothing", "packed"]

_LARGE = 1 << 16  # characters of a text that isn't copied
VERSION, _CHANGING_NOTHING = _store._control_protocol()

Frame = dict[str, t.Any]


def changes_nothing(frame: Frame) -> bool:
    """Whether the notebook is the same after a frame; a commit looks itself."""
    return frame.get("op") in _CHANGING_NOTHING


def packed(pack: t.Callable[[t.Any], bytes], content: t.Any) -> bytes:
    """The bytes of a message's content, which `pack` makes of anything.

    The text may have megabytes: a picture, a page with an interactive plot. Such a text is escaped
    by C code of ours (json_text.c), right to its place in these bytes, so that it is copied once on its
    way to the frontend. All else is as `pack` has it: it is given a mark in the text's place.
    """
    shown = content.get("data") if isinstance(content, dict) else None
    if not isinstance(shown, dict):
        return pack(content)
    large = {k: v for k, v in shown.items() if type(v) is str and len(v) >= _LARGE}
    if not large:
        return pack(content)
    mark = os.urandom(16).hex()
    whole = pack({**content, "data": {**shown, **dict.fromkeys(large, mark)}})
    try:
        return _store._json_join(whole.split(b'"%s"' % mark.encode()), list(large.values()))
    except UnicodeEncodeError:
        return pack(content)
