"""Carries logging's levels: what each logger lets through.

Handlers and filters of loggers are values (kept.py). Attributes that code has given a logger, and a class of the
notebook's, stay in their process.
"""

from __future__ import annotations

import logging
import typing as t

from .watched import Memo

_DEFAULT = (logging.NOTSET, True, False)


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
