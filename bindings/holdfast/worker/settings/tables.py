"""pandas' display options: how many rows of a table are shown, and how.

They are read from the dict behind `pandas.options.display`, which each commit does (by their
attributes it takes twenty times as long), and never by importing pandas: if it isn't imported
they wait until it is, and are carried on as they came. Its other options change what is computed.
"""

from __future__ import annotations

import sys
import typing as t

from holdfast._after_import import call_after_import

_PLAIN = (str, int, float, bool, type(None))

_waiting: dict[str, t.Any] | None = None


def capture() -> dict[str, t.Any] | None:
    """The plain options of this process, None if nobody has asked for any."""
    pandas = sys.modules.get("pandas")
    if not hasattr(pandas, "options"):  # not there, or being imported
        return _waiting
    return dict(_options(pandas.options.display.d, ""))


def apply(new: dict[str, t.Any]) -> None:
    """Make them this process's options, now or once pandas is imported."""
    global _waiting
    if "pandas" in sys.modules:
        _apply_now(new)
        return
    if _waiting is None:
        call_after_import("pandas", lambda: _apply_now(_waiting or {}))
    _waiting = new


def _apply_now(new: dict[str, t.Any]) -> None:
    import pandas

    current = dict(_options(pandas.options.display.d, ""))
    for name, value in new.items():
        if name in current and current[name] != value:
            pandas.set_option("display." + name, value)


def _options(group: dict[str, t.Any], prefix: str) -> t.Iterator[tuple[str, t.Any]]:
    for name, value in group.items():
        if isinstance(value, dict):
            yield from _options(value, f"{prefix}{name}.")
        elif type(value) in _PLAIN:
            yield prefix + name, value
