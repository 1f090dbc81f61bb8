"""Panel: its extension."""

from . import Replay

DECLARATIONS = (Replay("extension", (("panel.config", "panel_extension.__call__"),), through=True),)
