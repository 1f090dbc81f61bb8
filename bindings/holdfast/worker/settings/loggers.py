"""Carries logging's levels: what each logger lets through.

What else a logger has are values (kept.py): its handlers and filters, the attributes that code has given it,
and its class, if the notebook chose it.
"""

from __future__ import annotations

import logging
import sys
import types
import typing as t

from holdfast._patches import MISSING

from ..origin import is_library
from .watched import Memo

_DEFAULT = (logging.NOTSET, True, False)
# Attributes that logging gives them; `getLogger` sets the last.
_OF_ALL = frozenset((*vars(logging.Logger("")), "manager"))
_COUNT = len(_OF_ALL)
_OWN_KINDS = (logging.Logger, logging.RootLogger)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)


def _read() -> dict[str, t.Any]:
    """The settings of each logger that was changed since it was made."""
    manager = logging.root.manager
    found: dict[str, t.Any] = {"root": _settings(logging.root)}
    for name, logger in named():
        settings = _settings(logger)
        if settings != _DEFAULT:
            found[name] = settings
    return {"loggers": found, "disable": manager.disable}


def objects() -> list[t.Any]:
    """In which all of that is kept."""
    manager = logging.root.manager
    parts: list[t.Any] = [vars(manager), manager.loggerDict]
    for _, logger in named():
        parts += [type(logger), vars(logger), logger.handlers, logger.filters]
    return parts


def manager() -> t.Any:
    return logging.root.manager


capture = Memo(_read, manager, objects)


def apply(new: dict[str, t.Any], old: dict[str, t.Any] | None) -> None:
    """Set what differs between two captures; a logger that isn't here yet is made."""
    before = (old or {}).get("loggers", {})
    for name in new["loggers"].keys() | before.keys():
        settings = new["loggers"].get(name, _DEFAULT)
        if settings == before.get(name, _DEFAULT):
            continue
        logger = find(name)
        level, logger.propagate, logger.disabled = settings
        logger.setLevel(level)
    logging.disable(new["disable"])


def _settings(logger: logging.Logger) -> tuple[t.Any, ...]:
    return logger.level, logger.propagate, logger.disabled


def named() -> t.Iterator[tuple[str, logging.Logger]]:
    """All that there are."""
    yield "root", logging.root
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name, logger


def find(name: str) -> logging.Logger:
    return logging.root if name == "root" else logging.getLogger(name)


# ---- attributes and classes


def _read_additions() -> t.Any:
    """What code has added to loggers, by their names: the class, or None for logging's, and the attributes."""
    found: dict[str, t.Any] = {}
    for name, logger in named():
        if len(vars(logger)) != _COUNT or type(logger) not in _OWN_KINDS:
            added = _class_of(name, logger), _attributes_of(logger)
            if any(added):
                found[name] = added
    return found or MISSING


additions = Memo(_read_additions, manager, objects)


def set_additions(new: t.Any) -> None:
    new = {} if new is MISSING else new
    current = additions()
    for name in new.keys() | (current.keys() if current is not MISSING else ()):
        logger = find(name)
        kind, attributes = new.get(name, (None, {}))
        was = _class_of(name, logger)
        if kind is not was:
            logger.__class__ = kind or _OWN_KINDS[logger is logging.root]
        for gone in _attributes_of(logger).keys() - attributes.keys():
            del vars(logger)[gone]
        vars(logger).update(attributes)


def _class_of(name: str, logger: logging.Logger) -> type | None:
    """None if it is logging's, or of the library whose logger it is."""
    kind = type(logger)
    is_kin = kind.__module__.partition(".")[0] == name.partition(".")[0]
    return None if kind in _OWN_KINDS or (is_kin and _is_of_library(kind)) else kind


def _attributes_of(logger: logging.Logger) -> dict[str, t.Any]:
    """But for functions of libraries, which have put them there."""
    return {
        attribute: value
        for attribute, value in vars(logger).items()
        if attribute not in _OF_ALL
        and not (isinstance(value, _FUNCTIONS) and _is_of_library(value))
    }


def _is_of_library(value: t.Any) -> bool:
    """Whether a class or function is defined there."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and is_library(file)
