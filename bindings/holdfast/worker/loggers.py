"""logging's levels: what each logger lets through, as far as somebody set it.

Handlers are not carried: a second process that writes to one log file, or sends to one server,
is for the notebook to decide. A cell's own handlers end with it.
"""

from __future__ import annotations

import logging
import typing as t

_DEFAULT = (logging.NOTSET, True, False)


def capture() -> dict[str, t.Any]:
    """Level, propagation and whether it is disabled, of each logger that isn't as it was made."""
    manager = logging.root.manager
    found: dict[str, t.Any] = {"root": (logging.root.level, True, logging.root.disabled)}
    for name, logger in list(manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            settings = logger.level, logger.propagate, logger.disabled
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
