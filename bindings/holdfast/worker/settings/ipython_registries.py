"""Carries what the notebook has registered with IPython, as slots made by registries.py.

That is magics, callbacks of events, transformers of code, formatters and printers, completers and hooks. What
a module of the user's own has made counts as the notebook's. An extension that another process loads again
gets its objects there, with their state. Each subject is a slot, so that a value that can't be encoded costs
no other subject. The magics of own modules are a slot by themselves.
"""

from __future__ import annotations

import functools
import sys
import typing as t

from holdfast.carry.patches import MISSING, Deleted, Slot

from .attributes import is_notebooks
from .registries import Holders, Registry, is_notebooks_or_nobodys, is_own

Names = t.Iterable[t.Any]

_COMPLETERS = "strs", "regexs"  # the dicts of IPython's StrDispatch
_SINGLETONS = None, True, False, Ellipsis, NotImplemented


def slots(shell: t.Any) -> dict[str, Slot]:
    """The slots that only look (kept.py)."""
    subjects: dict[str, t.Callable[[t.Any, Names], Holders]] = {
        "IPython's events": _events,
        "IPython's transformers of code": _transformers,
        "IPython's formatters": _formatters,
        "IPython's printers": _printers,
        "IPython's completers and hooks": _hooks,
    }
    registries = {
        name: Registry("IPython", functools.partial(holders, shell), has_removals=True)
        for name, holders in subjects.items()
    }
    magics = functools.partial(_magics, shell)
    registries["IPython's magics"] = Registry(
        "IPython",
        magics,
        lambda one: is_notebooks_or_nobodys(one) and not is_own(one),
        has_removals=True,
    )
    registries["IPython's magics of own modules"] = Registry("IPython", magics, is_own)
    registries["targets of comms"] = Registry("comm", _targets)
    return {name: registry.slot() for name, registry in registries.items()} | {
        "printers of single objects": _Singles(shell).slot(),
        "IPython's handler of errors": _errors_handler(shell),
    }


def _magics(shell: t.Any, names: Names) -> Holders:
    manager = shell.magics_manager
    found: Holders = {f"magics {kind}": magics for kind, magics in manager.magics.items()}
    found["lazy"] = manager.lazy_magics
    found["objects of magics"] = manager.registry
    found["configurable objects"] = shell.configurables
    return found


def _events(shell: t.Any, names: Names) -> Holders:
    found: Holders = {f"event {name}": calls for name, calls in shell.events.callbacks.items()}
    found["displays"] = getattr(shell.display_pub, "_hooks", [])
    return found


def _transformers(shell: t.Any, names: Names) -> Holders:
    manager = shell.input_transformer_manager
    return {
        "cleanup": shell.input_transformers_cleanup,
        "lines": manager.line_transforms,
        "tokens": manager.token_transformers,
        "post": shell.input_transformers_post,
        "trees": shell.ast_transformers,
    }


def _formatters(shell: t.Any, names: Names) -> Holders:
    """They themselves, and for which types they have a function. One of the notebook's has its own."""
    formatters = shell.display_formatter.formatters
    found: Holders = {"formatters": formatters}
    all_kinds = {
        **{kind: one for kind, one in formatters.items() if _is_librarys(one)},
        "of all kinds": shell.display_formatter.mimebundle_formatter,
        "that show": shell.display_formatter.ipython_display_formatter,
    }
    for kind, formatter in all_kinds.items():
        found[f"types {kind}"] = formatter.type_printers
        found[f"deferred {kind}"] = formatter.deferred_printers
    return found


def _is_librarys(formatter: t.Any) -> bool:
    return type(formatter).__module__ == "IPython.core.formatters" or not is_notebooks(formatter)


def _printers(shell: t.Any, names: Names) -> Holders:
    """The printers of the function `pretty`."""
    from IPython.lib import pretty

    return {"types": pretty._type_pprinters, "deferred": pretty._deferred_type_pprinters}


def _hooks(shell: t.Any, names: Names) -> Holders:
    """A text or pattern that only another process has completers for gets an empty chain of them."""
    from IPython.core.hooks import CommandChainDispatcher

    found: Holders = {
        f"hook {name}": one.chain
        for name, one in shell.hooks.items()
        if isinstance(one, CommandChainDispatcher)
    }
    found["matchers"] = shell.Completer.custom_matchers
    found["inspector"] = shell.inspector.mime_hooks
    dispatcher = shell.strdispatchers["complete_command"]
    for name in names:
        if isinstance(name, tuple):
            getattr(dispatcher, name[0]).setdefault(name[1], CommandChainDispatcher())
    for kind in _COMPLETERS:
        chains = getattr(dispatcher, kind)
        found |= {(kind, key): chain.chain for key, chain in chains.items()}
    return found


def _targets(names: Names) -> Holders:
    return {"targets": sys.modules["comm"].get_comm_manager().targets}


class _Singles:
    """The functions for single objects, which IPython has by `id`: another process has other ones."""

    def __init__(self, shell: t.Any):
        self._shell = shell
        self._begun = {name: dict(printers) for name, printers in self._holders().items()}

    def slot(self) -> Slot:
        return Slot("IPython", self._read, self._write)

    def _holders(self) -> Holders:
        from IPython.lib import pretty

        formatters = self._shell.display_formatter.formatters
        kinds = {kind: one for kind, one in formatters.items() if _is_librarys(one)}
        return {
            "": pretty._singleton_pprinters,
            **{kind: one.singleton_printers for kind, one in kinds.items()},
        }

    def _mine(self, name: str, printers: dict[int, t.Any]) -> dict[int, t.Any]:
        """By `id`. Which library has set one, nobody knows."""
        begun = self._begun.get(name, {})
        if printers == begun:
            return {}
        found = {key: one for key, one in printers.items() if begun.get(key, MISSING) is not one}
        return found | {key: Deleted for key in begun if key not in printers}

    def _read(self) -> t.Any:
        """Objects that no variable is any more are left out: nobody can print them."""
        found, objects = {}, None
        for name, printers in self._holders().items():
            mine = self._mine(name, printers)
            if mine and objects is None:
                everyone = (*self._shell.user_ns.values(), *_SINGLETONS)
                objects = {id(one): one for one in everyone}
            pairs = [(objects[key], one) for key, one in mine.items() if key in (objects or {})]
            if pairs:
                found[name] = pairs
        return found or MISSING

    def _write(self, new: t.Any) -> None:
        wanted = {} if new is MISSING else new
        for name, printers in self._holders().items():
            begun = self._begun.get(name, {})
            for key in self._mine(name, printers):
                printers.pop(key, None)
                if key in begun:
                    printers[key] = begun[key]
            for one, printer in wanted.get(name, ()):
                printers.pop(id(one), None)
                if printer is not Deleted:
                    printers[id(one)] = printer


def _errors_handler(shell: t.Any) -> Slot:
    def read() -> t.Any:
        if not shell.custom_exceptions:
            return MISSING
        wrapped = shell.CustomTB.__func__
        inner = dict(zip(wrapped.__code__.co_freevars, wrapped.__closure__ or (), strict=True))
        return [shell.custom_exceptions, inner["handler"].cell_contents]

    def write(new: t.Any) -> None:
        shell.set_custom_exc(*(((), None) if new is MISSING else new))

    return Slot("IPython", read, write)
