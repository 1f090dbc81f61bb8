"""Reports to the frontend what a plain cell imports, at the moment when it does.

Then the fork server imports the same: at once, on another core, if cells run in clean processes, else when
nobody uses the notebook (kernel/session/standby.c). A notebook usually begins with its imports. So the
process that waits for the first cell in a clean process has them already. A report after the cell would be
too late for a notebook that runs from top to bottom.

Reported are packages, and modules in packages that no other library is importing: the cell's own (`from
sklearn.ensemble import ...`), those of the user's modules, and what a library imports when it is first used.
The others come with these.

A finder on `sys.meta_path` is asked once for each module that isn't imported yet, and finds nothing. It is
also asked by a library that only looks whether another one is there: Polars looks for PyTorch, which nobody
wants for that. An audit hook was rejected: it is called for each event of the interpreter.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import typing as t

from holdfast.base import after_import

from .control import Channel, ChannelClosed
from .origin import is_library

submodules: set[str] = set()  # that the notebook, or a library at its first use, has asked for
_OWN = frozenset(("IPython", "ipykernel", "holdfast"))  # what a worker itself imports


_HOOKS = {name: getattr(builtins, name) for name in ("__import__", "__build_class__")}


@contextlib.contextmanager
def unseen() -> t.Iterator[None]:
    """While a worker imports something of its own: functions of the notebook that stand for what `import` and
    `class` call needn't see it."""
    held = {name: getattr(builtins, name) for name in _HOOKS}
    vars(builtins).update(_HOOKS)
    try:
        yield
    finally:
        vars(builtins).update(held)


class ImportReporter:
    """Sends an `importing` frame for each new module that the fork server may want."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._reported: set[str] = set()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Report what this process imports, and not what a fork of it does."""
        self._pid = os.getpid()

    def find_spec(self, name: str, path: t.Any = None, target: t.Any = None) -> None:
        """Never finds anything: the next finder is asked."""
        if name in self._reported or name.startswith("_"):
            return
        if _only_looks():
            return
        if "." in name and (name.partition(".")[0] in _OWN or _library_asks()):
            return
        self._reported.add(name)
        if "." in name:
            submodules.add(name)
        if os.getpid() == self._pid:  # not in a process that user code forked
            with contextlib.suppress(ChannelClosed):
                self._channel.send("importing", modules=[name])


def _only_looks() -> bool:
    """Whether `importlib.util.find_spec` asks. A finder before ours may have passed the question on."""
    frame = sys._getframe(3)
    while frame.f_globals.get("__name__") == after_import.__name__:
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_code.co_name == "find_spec"


def _library_asks() -> bool:
    """Whether the code of a library's module is running, which its import does once."""
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            if is_library(code.co_filename):
                return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
