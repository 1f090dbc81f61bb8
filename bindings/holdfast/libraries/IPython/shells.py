"""The codecs of IPython's shell and its parts: each process has its own.

Many notebooks have a line `ip = get_ipython()`, and the shell refers to everything else.
"""

from __future__ import annotations

import functools
import typing as t

from IPython import get_ipython

from holdfast.carry import trial
from holdfast.codecs import Codec, register


class _Shells(Codec):
    types = ("IPython.core.interactiveshell.InteractiveShell",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        return (get_ipython, ()) if value is get_ipython() else NotImplemented


_PARTS = (
    "Completer",
    "alias_manager",
    "display_formatter",
    "display_pub",
    "displayhook",
    "events",
    "extension_manager",
    "history_manager",
    "input_transformer_manager",
    "kernel",
    "kernel._stderr",  # sys.stderr and sys.stdout, even if code has replaced those
    "kernel._stdout",
    "kernel.interrupts",  # its method handles SIGINT
    "magics_manager",
    "payload_manager",
)


class _Parts(Codec):
    types = (
        "IPython.core.alias.AliasManager",
        "IPython.core.completer.Completer",
        "IPython.core.displayhook.DisplayHook",
        "IPython.core.displaypub.DisplayPublisher",
        "IPython.core.events.EventManager",
        "IPython.core.extensions.ExtensionManager",
        "IPython.core.formatters.BaseFormatter",
        "IPython.core.formatters.DisplayFormatter",
        "IPython.core.history.HistoryManager",
        "IPython.core.inputtransformer2.TransformerManager",
        "IPython.core.magic.MagicsManager",
        "IPython.core.payload.PayloadManager",
        "holdfast.worker.interrupt.Interrupts",
        "ipykernel.iostream.OutStream",
        "ipykernel.kernelbase.Kernel",
    )

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        home = type(value).__module__
        if home == "__main__" or trial.is_own(home):  # a formatter of the notebook's
            return NotImplemented
        for name, part in _parts(get_ipython()).items():
            if part is value:
                return find_part, (name,)
        return NotImplemented


def _parts(shell: t.Any) -> dict[str, t.Any]:
    found = {}
    for path in _PARTS:
        found[path] = functools.reduce(
            lambda one, name: getattr(one, name, None), path.split("."), shell
        )
    return found | getattr(found["display_formatter"], "formatters", {})


def find_part(name: str) -> t.Any:
    """A part of this process's shell."""
    return _parts(get_ipython())[name]


class _Lazy(Codec):
    """Magics that import their module when one is used. To ask one for an attribute would import
    it."""

    types = ("IPython.core.magic.LazyMagic",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        parts = vars(value)
        return make_lazy, (parts["spec"], parts["_kind"], parts["_name"])


def make_lazy(spec: str, kind: t.Any, name: str) -> t.Any:
    """A magic of this process's shell that imports its module when it is used."""
    from IPython.core import magic

    return magic.LazyMagic(get_ipython().magics_manager, spec, kind, name)  # type: ignore[attr-defined]


for _codec in (_Shells(), _Parts(), _Lazy()):
    register(_codec)
