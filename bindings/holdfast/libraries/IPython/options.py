"""Options of IPython's shell and of its parts, such as the formats of a result or whether an error opens the debugger.

Each part is an object of IPython's that can be configured. Options that differ from the defaults of its class
are carried if they are plain values. So is what the notebook writes into the shell's configuration, with
which parts that are made later begin.

Options of the inline backend are Matplotlib's settings. What a formatter does for a type is a registry.
"""

from __future__ import annotations

import copy
import functools
import os
import typing as t

from IPython.utils.ipstruct import Struct
from traitlets.config.loader import Config

from holdfast.carry.patches import is_plain

Options = dict[str, dict[str, t.Any]]  # by the part, by the option

_MISSING: t.Any = object()
_ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None)))
_OWN_NAMES = "In Out _ih _oh _dh exit quit get_ipython open".split()
_CARRIED_OTHERWISE = frozenset(("InlineBackend", "AliasManager"))
_OF_PROCESS = frozenset(("hist_file", "connection_options"))  # a cell's history is in memory
# Others are set by themselves, or are registries. An empty one is plain, and was set as an option.
_REGISTRIES = frozenset(("type_printers", "deferred_printers", "singleton_printers", "lazy_magics"))
_LEFT_OUT = _OF_PROCESS | _REGISTRIES | {"float_precision"}
_METHOD = "print_method"  # of a formatter, which `%config` doesn't know
_OF_LOG = ("logfname", "loghead", "logmode", "timestamp", "log_output", "log_raw_input")


# ---- the shell


def aliases(shell: t.Any) -> list[list[str]]:
    return sorted([name, str(command)] for name, command in shell.alias_manager.aliases)


def set_aliases(shell: t.Any, new: list[list[str]]) -> None:
    manager = shell.alias_manager
    for name, _ in set(manager.aliases) - {tuple(one) for one in new}:
        manager.undefine_alias(name)
    for name, command in {tuple(one) for one in new} - set(manager.aliases):
        manager.define_alias(name, command)


def deleted(shell: t.Any) -> list[str]:
    """IPython's own names that the user has deleted."""
    return [name for name in _OWN_NAMES if name not in shell.user_ns]


def set_deleted(shell: t.Any, new: list[str]) -> None:
    for name in new:
        shell.user_ns.pop(name, None)


@functools.cache
def _names_of_traits(kind: t.Any) -> list[str]:
    return sorted(kind.class_trait_names(config=True))


def traits(shell: t.Any) -> dict[str, t.Any]:
    known = shell._trait_values  # without the calls that a trait's descriptor makes
    values = {
        name: known[name] if name in known else getattr(shell, name)
        for name in _names_of_traits(shell.__class__)
    }
    return {name: value for name, value in values.items() if type(value) in _ATOMS}


def set_traits(shell: t.Any, new: dict[str, t.Any]) -> None:
    for name, value in new.items():
        if getattr(shell, name) != value:
            setattr(shell, name, value)


# ---- its parts


def of_parts(shell: t.Any) -> Options:
    return {
        **{key: found for key, part in _parts(shell) if (found := _differing(part))},
        "": {
            "call_pdb": shell.call_pdb,
            "cache_size": shell.displayhook.cache_size,
            "config": _plain(shell.config),
            "meta": copy.deepcopy(
                {name: one for name, one in shell.meta.items() if _is_plain(one)}
            ),
            "log": _log(shell.logger),
        },
    }


def set_of_parts(shell: t.Any, new: Options) -> None:
    _set_of_shell(new.get("", {}), shell)
    parts = dict(_parts(shell))
    if new.keys() - parts.keys() - {""}:  # parts that IPython makes when one of them is asked for
        getattr(shell.magics_manager, "load_all_lazy_magics", lambda: None)()
        parts = dict(_parts(shell))
    for key, part in parts.items():
        wanted, now = new.get(key, {}), _differing(part)
        for name in sorted(wanted.keys() | now.keys()):
            value = wanted[name] if name in wanted else _default(part, name)
            if getattr(part, name) != value:
                setattr(part, name, copy.deepcopy(value))


def _parts(shell: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    """Those that are there, by names. What shows results comes first: to set its active types switches
    formatters on and off."""
    display = shell.display_formatter
    yield "display", display
    yield from display.formatters.items()
    yield "ipython_display", display.ipython_display_formatter
    yield "mimebundle", display.mimebundle_formatter
    for part in list(shell.configurables):
        if part is not shell and part is not display:
            kind = type(part)
            if kind.__module__ != "__main__" and kind.__name__ not in _CARRIED_OTHERWISE:
                yield kind.__name__, part


def _differing(part: t.Any) -> dict[str, t.Any]:
    """Options that aren't as their class has them, without the calls that a trait's descriptor makes."""
    known, kind = part._trait_values, t.cast("t.Any", type(part))
    found = {}
    for name, default in _options(kind).items():
        value = known.get(name, default)
        if value is not default and is_plain(value) and value != default:
            found[name] = copy.deepcopy(value)
    return found


@functools.cache
def _options(kind: t.Any) -> dict[str, t.Any]:
    """Those of a class, and what they are at first if that is known without an object."""
    return {
        name: trait.default_value if is_plain(trait.default_value) else _MISSING
        for name, trait in kind.class_traits().items()
        if name not in _LEFT_OUT and (trait.metadata.get("config") or name == _METHOD)
    }


def _default(part: t.Any, name: str) -> t.Any:
    return part.traits()[name].default(part)


# ---- what the shell's parts share


def _set_of_shell(new: dict[str, t.Any], shell: t.Any) -> None:
    if new.get("call_pdb", shell.call_pdb) != shell.call_pdb:
        shell.call_pdb = new["call_pdb"]
    shell.displayhook.cache_size = new.get("cache_size", shell.displayhook.cache_size)
    if "config" in new:
        _set_config(shell.config, new["config"])
    if "meta" in new:
        for name in [one for one, value in shell.meta.items() if _is_plain(value)]:
            if name not in new["meta"]:
                del shell.meta[name]
        shell.meta.update(copy.deepcopy(new["meta"]))
    if "log" in new:
        _set_log(shell.logger, new["log"])


def _is_plain(value: t.Any) -> bool:
    return is_plain(dict(value) if type(value) is Struct else value)


def _plain(config: t.Any) -> dict[str, t.Any]:
    """A configuration as nested dicts, without sections that only code has asked for."""
    found: dict[str, t.Any] = {}
    for name, value in config.items():
        if isinstance(value, Config):
            if section := _plain(value):
                found[name] = section
        elif name not in _OF_PROCESS and is_plain(value):
            found[name] = copy.deepcopy(value)
    return found


def _set_config(config: t.Any, new: dict[str, t.Any]) -> None:
    """Change the configuration object in place: parts of IPython may have it, too."""
    old = _plain(config)
    for name in old.keys() - new.keys():
        if isinstance(config[name], Config):
            _set_config(config[name], {})
        else:
            del config[name]
    for name, value in new.items():
        if value == old.get(name, _MISSING):
            continue
        if not isinstance(value, dict) or not name[:1].isupper():
            config[name] = value
        elif isinstance(config[name], Config):
            _set_config(config[name], value)


def _log(logger: t.Any) -> dict[str, t.Any]:
    """What `%logstart` and its kin have set. The size shows that another process has written to the file."""
    file = logger.logfile
    if file is None or file.closed:
        return {"active": logger.log_active}
    return {
        **{name: getattr(logger, name) for name in _OF_LOG},
        "active": logger.log_active,
        "file": os.path.realpath(f"/proc/self/fd/{file.fileno()}"),
        "size": os.fstat(file.fileno()).st_size,
    }


def _set_log(logger: t.Any, new: dict[str, t.Any]) -> None:
    now = _log(logger)
    if now.get("file") != new.get("file"):
        if "file" in now:
            logger.logfile.close()
        logger.logfile = open(new["file"], "a", encoding="utf-8") if "file" in new else None
    elif "file" in now:
        logger.logfile.seek(0, os.SEEK_END)
    for name in _OF_LOG:
        if name in new:
            setattr(logger, name, new[name])
    logger.log_active = new["active"]
