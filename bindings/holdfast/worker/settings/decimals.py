"""The context of `decimal`: precision, rounding, limits, and which conditions are told or raised.

It belongs to a process and hangs on the context that all cells share. It is changed where it is, so
that who holds it sees the change.
"""

from __future__ import annotations

import sys
import typing as t

_PLAIN = "prec", "rounding", "Emin", "Emax", "capitals", "clamp"
_SIGNALS = "flags", "traps"


def capture() -> dict[str, t.Any] | None:
    """The current context, None where nobody can have set it."""
    decimal = sys.modules.get("decimal")
    if not hasattr(decimal, "getcontext"):  # not there, or being imported
        return None
    context = decimal.getcontext()
    state = {name: getattr(context, name) for name in _PLAIN}
    for name in _SIGNALS:
        signals = getattr(context, name)
        state[name] = sorted(signal.__name__ for signal in signals if signals[signal])
    return state


def apply(new: dict[str, t.Any]) -> None:
    import decimal

    context = decimal.getcontext()
    for name in _PLAIN:
        if getattr(context, name) != new[name]:
            setattr(context, name, new[name])
    for name in _SIGNALS:
        signals = getattr(context, name)
        for signal in signals:
            signals[signal] = signal.__name__ in new[name]
