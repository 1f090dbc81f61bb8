"""logging's settings: what each logger lets through. Its handlers and filters are values (kept.py)."""

from __future__ import annotations

import logging
import typing as t

_DEFAULT = (logging.NOTSET, True, False)


def capture() -> dict[str, t.Any]:
    """The settings of each logger that was changed since it was made."""
    manager = logging.root.manager
    found: dict[str, t.Any] = {"root": _settings(logging.root)}
    for name, logger in list(manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            settings = _settings(logger)
            if settings != _DEFAULT:
                found[name] = settings
    return {"loggers": found, "disable": manager.disable}


def apply(new: dict[str, t.Any], old: dict[str, t.Any] | None) -> None:
    """Set what differs between two captures; a logger that isn't here yet is made."""
    before = (old or {}).get("loggers", {})
    for name in new["loggers"].keys() | before.keys():
        settings = new["loggers"].get(name, _DEFAULT)
        if settings == before.get(name, _DEFAULT):
            continue
        logger = logging.root if name == "root" else logging.getLogger(name)
        level, logger.propagate, logger.disabled = settings
        logger.setLevel(level)
    logging.disable(new["disable"])


def _settings(logger: logging.Logger) -> tuple[t.Any, ...]:
    return logger.level, logger.propagate, logger.disabled
