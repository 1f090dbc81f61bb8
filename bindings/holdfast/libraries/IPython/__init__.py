"""IPython: options, and what the notebook has registered with it.

That is magics, callbacks of events, transformers of code, formatters and printers, completers and hooks. What a module
of the user's own has made counts as the notebook's. An extension that another process loads again gets its objects
there, with their state. Each subject is declared by itself, so that a value that can't be encoded costs no other
subject.
"""

from __future__ import annotations

import operator
import typing as t

from IPython import get_ipython

from holdfast.carry.patches import Deleted
from holdfast.carry.snapshots import Snapshot
from holdfast.libraries import MISSING, Registry, Setting

from . import options

Names = t.Iterable[t.Any]
Holders = dict[t.Any, t.Any]
Singles = dict[str, Snapshot]

_COMPLETERS = "strs", "regexs"  # the dicts of IPython's StrDispatch
_SINGLETONS = None, True, False, Ellipsis, NotImplemented
_EMPTY = Snapshot({})


# ---- lists and dicts of the shell


def _magics(shell: t.Any, names: Names) -> Holders:
    manager = shell.magics_manager
    found: Holders = {f"magics {kind}": magics for kind, magics in manager.magics.items()}
    found["lazy"] = manager.lazy_magics
    found["objects of magics"] = manager.registry
    found["configurable objects"] = shell.configurables
    return found


def _is_alias(one: object) -> bool:
    """Aliases of magics are made by IPython, but for the notebook."""
    return type(one).__name__ in ("MagicAlias", "LazyMagic")


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


def _librarys_formatters(shell: t.Any) -> Holders:
    """Without those of the notebook's: each has functions of its own."""
    formatters = shell.display_formatter.formatters.items()
    return {kind: one for kind, one in formatters if type(one).__module__ != "__main__"}


def _formatters(shell: t.Any, names: Names) -> Holders:
    """They themselves, and for which types they have a function."""
    found: Holders = {"formatters": shell.display_formatter.formatters}
    all_kinds = {
        **_librarys_formatters(shell),
        "of all kinds": shell.display_formatter.mimebundle_formatter,
        "that show": shell.display_formatter.ipython_display_formatter,
    }
    for kind, formatter in all_kinds.items():
        found[f"types {kind}"] = formatter.type_printers
        found[f"deferred {kind}"] = formatter.deferred_printers
    return found


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


# ---- functions for single objects, which IPython has by `id`: another process has other ones


def _single_printers() -> Holders:
    from IPython.lib import pretty

    shell = get_ipython()
    formatters = {} if shell is None else _librarys_formatters(shell)
    kinds = {kind: one.singleton_printers for kind, one in formatters.items()}
    return {"": pretty._singleton_pprinters, **kinds}


def _begin_singles() -> Singles:
    return {name: Snapshot(printers) for name, printers in _single_printers().items()}


def _singles(begun: Singles) -> t.Any:
    """Which library has set one, nobody knows. Objects that no variable is any more are left out: nobody can print
    them."""
    found, objects = {}, None
    for name, printers in _single_printers().items():
        before = begun.get(name, _EMPTY)
        changes = {} if before.is_still(printers) else before.changes(printers)
        if changes and objects is None:
            everyone = (*get_ipython().user_ns.values(), *_SINGLETONS)
            objects = {id(one): one for one in everyone}
        pairs = [
            (objects[key], Deleted if one is MISSING else one)
            for key, (_, one) in changes.items()
            if key in (objects or {})
        ]
        if pairs:
            found[name] = pairs
    return found or MISSING


def _set_singles(begun: Singles, new: t.Any) -> None:
    wanted = {} if new is MISSING else new
    for name, printers in _single_printers().items():
        before = begun.get(name, _EMPTY)
        before.put_back(printers, before.changes(printers))
        for one, printer in wanted.get(name, ()):
            printers.pop(id(one), None)
            if printer is not Deleted:
                printers[id(one)] = printer


# ---- the handler of errors


def _errors_handler() -> t.Any:
    shell = get_ipython()
    if not shell.custom_exceptions:
        return MISSING
    wrapped = shell.CustomTB.__func__
    inner = dict(zip(wrapped.__code__.co_freevars, wrapped.__closure__ or (), strict=True))
    return [shell.custom_exceptions, inner["handler"].cell_contents]


def _set_errors_handler(new: t.Any) -> None:
    get_ipython().set_custom_exc(*(((), None) if new is MISSING else new))


def _of_shell(
    name: str, holders: t.Callable[[t.Any, Names], Holders], made_by: str = "notebook"
) -> Registry:
    def of_this(names: Names) -> Holders:
        shell = get_ipython()
        return {} if shell is None else holders(shell, names)

    return Registry(
        name,
        "IPython",
        holders=of_this,
        made_by=made_by,
        counts=_is_alias,
        has_removals=made_by != "own modules",
    )


def _option(
    name: str, get: t.Callable[[t.Any], t.Any], put: t.Callable[[t.Any, t.Any], object]
) -> Setting:
    def read() -> t.Any:
        shell = get_ipython()
        return None if shell is None else get(shell)

    return Setting(name, read, lambda new: put(get_ipython(), new))


def _text(shell: t.Any) -> t.Any:
    return shell.display_formatter.formatters["text/plain"]


DECLARATIONS = (
    _option(
        "precision",
        lambda shell: _text(shell).float_precision,
        lambda shell, new: setattr(_text(shell), "float_precision", new),
    ),
    _option("options of parts", options.of_parts, options.set_of_parts),
    _option(
        "form of tracebacks",
        lambda shell: shell.InteractiveTB.mode,
        lambda shell, new: shell.InteractiveTB.set_mode(new),
    ),
    _option("deleted names", options.deleted, options.set_deleted),
    _option(
        "flags of the compiler (from __future__)",
        lambda shell: shell.compile.flags,
        lambda shell, new: setattr(shell.compile, "flags", new),
    ),
    _option("aliases", options.aliases, options.set_aliases),
    _option(
        "stack of directories",
        lambda shell: list(shell.dir_stack),
        lambda shell, new: operator.setitem(shell.dir_stack, slice(None), new),
    ),
    _option("options", options.traits, options.set_traits),
    _of_shell("events", _events),
    _of_shell("transformers of code", _transformers),
    _of_shell("formatters", _formatters),
    _of_shell("printers", _printers),
    _of_shell("completers and hooks", _hooks),
    _of_shell("magics", _magics, "cells"),
    _of_shell("magics of own modules", _magics, "own modules"),
    Setting(
        "printers of single objects", _singles, _set_singles, has_values=True, begin=_begin_singles
    ),
    Setting("handler of errors", _errors_handler, _set_errors_handler, has_values=True),
)
