"""rich: what it shows instead of IPython, and whether its console has other options than its own."""

from __future__ import annotations

from . import Imported, Replay, Setting

_rich = Imported("rich")


def _reconfigured() -> list[str]:
    """What `rich.reconfigure` has set, which can only be named: a console has a lock."""
    console = _rich._console
    if console is None:
        return []
    own, plain = vars(console), vars(type(console)())
    names = ("_width", "_height", "_force_terminal", "soft_wrap", "record", "no_color", "stderr")
    return [f"{name}={own.get(name)}" for name in names if own.get(name) != plain.get(name)]


DECLARATIONS = (
    Setting("options of the console", _reconfigured),
    Replay(
        "installation", (("rich.pretty", "install"), ("rich.traceback", "install")), through=True
    ),
)
