"""seaborn: the theme and the display of `Plot`."""

from . import Registry

DECLARATIONS = (
    Registry(
        "configuration", "seaborn._core.plot", "Plot.config", ("_theme", "_display"), fixed=True
    ),
)
