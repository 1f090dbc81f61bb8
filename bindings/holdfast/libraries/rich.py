"""rich: what it shows instead of IPython."""

from . import Replay

DECLARATIONS = (
    Replay(
        "installation", (("rich.pretty", "install"), ("rich.traceback", "install")), through=True
    ),
)
