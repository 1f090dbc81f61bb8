"""hvPlot: its extension."""

from . import Replay

DECLARATIONS = (
    Replay("extension", (("hvplot.utilities", "hvplot_extension.__call__"),), through=True),
)
