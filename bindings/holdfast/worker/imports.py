"""Telling the frontend what a plain cell imports, at the moment when it does.

The template then imports the same at the same time, on another core. A notebook usually
begins with its imports, and when it comes to its first instrumented cell, the process that
waits for it has them already. Telling only after the cell would be too late for a
notebook that is run from top to bottom.

A finder on `sys.meta_path` is asked once for each module that isn't imported yet, and finds
nothing. An audit hook would be called for each event of the interpreter, for ever.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import os
import typing as t

from .control import Channel, ChannelClosed
from .template import SUBMODULES


class ImportTeller(importlib.abc.MetaPathFinder):
    """Sends an `importing` frame for each new module that the template may want."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._told: set[str] = set()
        self._pid = os.getpid()

    def find_spec(self, name: str, path: t.Any = None, target: t.Any = None) -> None:
        """Never finds anything: the next finder is asked."""
        if name in self._told or name.startswith("_"):
            return
        if "." in name and name not in SUBMODULES:
            return
        self._told.add(name)
        if os.getpid() == self._pid:  # not in a process that user code forked
            with contextlib.suppress(ChannelClosed):
                self._channel.send("importing", modules=[name])
