"""logging's settings: what each logger lets through, and where it shows it in the notebook.

Of the handlers those are carried that write to the cell's own output, as `basicConfig` makes
them: they are told by their level and format. Others are not: a second process that writes to one
log file, or sends to one server, is for the notebook to decide.
"""

from __future__ import annotations

import logging
import sys
import typing as t

_DEFAULT = (logging.NOTSET, True, False, ())
_STYLES = {
    logging.PercentStyle: "%",
    logging.StrFormatStyle: "{",
    logging.StringTemplateStyle: "$",
}


def capture() -> dict[str, t.Any]:
    """What was set at each logger that isn't as it was made."""
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
        level, logger.propagate, logger.disabled, shown = settings
        logger.setLevel(level)
        _show(logger, shown)
    logging.disable(new["disable"])


def _settings(logger: logging.Logger) -> tuple[t.Any, ...]:
    told = filter(None, map(_describe, logger.handlers))
    return logger.level, logger.propagate, logger.disabled, tuple(told)


def _describe(handler: logging.Handler) -> tuple[t.Any, ...] | None:
    """Stream, level and format of one that writes to the cell's output; None for another."""
    if type(handler) is not logging.StreamHandler or handler.filters:
        return None
    stream = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}.get(id(handler.stream))
    if stream is None:
        return None
    formatter = handler.formatter
    if formatter is None:
        return stream, handler.level, None
    style = _STYLES.get(type(formatter._style))
    if type(formatter) is not logging.Formatter or style is None:
        return None
    if formatter._style._defaults:  # type: ignore[attr-defined]
        return None
    return stream, handler.level, (formatter._fmt, formatter.datefmt, style)


def _show(logger: logging.Logger, told: t.Iterable[tuple[t.Any, ...]]) -> None:
    """Let the logger have handlers that are described so; one that is here already stays."""
    missing = list(told)
    for handler in list(logger.handlers):
        described = _describe(handler)
        if described in missing:
            missing.remove(described)
        elif described is not None:
            logger.removeHandler(handler)
    for stream, level, layout in missing:
        made = logging.StreamHandler(getattr(sys, stream))
        made.setLevel(level)
        made.setFormatter(layout and logging.Formatter(*layout))
        logger.addHandler(made)
