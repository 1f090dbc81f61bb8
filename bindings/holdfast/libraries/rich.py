"""rich: its console, and what it replaces in IPython."""

from . import Registry, Replay

DECLARATIONS = (
    Registry("console", "rich", "", ("_console",)),
    Replay(
        "installation", (("rich.pretty", "install"), ("rich.traceback", "install")), through=True
    ),
)
