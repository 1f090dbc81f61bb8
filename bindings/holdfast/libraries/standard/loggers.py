"""logging: what each logger lets through, its handlers and filters.

Attributes that code has given a logger, and a class of the notebook's, stay in their process.
"""

from __future__ import annotations

import logging
import typing as t

from holdfast.carry.snapshots import Snapshot
from holdfast.libraries import MISSING

Levels = dict[str, tuple[t.Any, ...]]
Begun = dict[str, Snapshot]  # the handlers that each logger began with

_DEFAULT = (logging.NOTSET, True, False)
_NONE = Snapshot([])


def _named() -> t.Iterator[tuple[str, logging.Logger]]:
    """All that there are."""
    yield "root", logging.root
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name, logger


def _find(name: str) -> logging.Logger:
    return logging.root if name == "root" else logging.getLogger(name)


def held() -> t.Any:
    return logging.root.manager


def parts() -> list[t.Any]:
    """What all of this is kept in."""
    found: list[t.Any] = [vars(held()), held().loggerDict]
    for _, logger in _named():
        found += [type(logger), vars(logger), logger.handlers, logger.filters]
    return found


# ---- levels


def levels() -> Levels:
    """The level of each logger that was changed since it was made, whether it propagates, and whether it is off."""
    found = {name: (one.level, one.propagate, one.disabled) for name, one in _named()}
    return {name: one for name, one in found.items() if name == "root" or one != _DEFAULT}


def set_levels(new: Levels) -> None:
    """A logger that isn't here yet is made."""
    now = levels()
    for name in new.keys() | now.keys():
        settings = new.get(name, _DEFAULT)
        if settings != now.get(name, _DEFAULT):
            logger = _find(name)
            level, logger.propagate, logger.disabled = settings
            logger.setLevel(level)


# ---- handlers and filters


def begin() -> Begun:
    return {name: Snapshot(logger.handlers) for name, logger in _named()}


def handlers(begun: Begun) -> t.Any:
    """Those of each logger that has other ones than the process gave it, which go by their places."""
    found: dict[str, t.Any] = {}
    for name, logger in _named():
        before = begun.get(name, _NONE)
        if logger.filters or not before.is_still(logger.handlers):
            places = {key: place for place, key in enumerate(before.entries)}
            found[name] = (
                [places.get(id(handler), handler) for handler in logger.handlers],
                list(logger.filters),
            )
    return found or MISSING


def set_handlers(begun: Begun, new: t.Any) -> None:
    wanted, now = ({} if one is MISSING else one for one in (new, handlers(begun)))
    for name in wanted.keys() | now.keys():
        logger, before = _find(name), list(begun.get(name, _NONE).values)
        found, filters = wanted.get(name, (before, []))
        logger.handlers[:] = [
            before[one] if isinstance(one, int) else one
            for one in found
            if not isinstance(one, int) or one < len(before)
        ]
        logger.filters[:] = filters
