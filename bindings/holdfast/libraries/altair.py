"""Altair: themes, renderers, and transformers of data."""

from . import Registry

DECLARATIONS = (
    Registry("themes", "altair.vegalite.v6.theme", "themes"),
    Registry("renderers", "altair.vegalite.v6.display", "renderers"),
    Registry("transformers of data", "altair.vegalite.v6.data", "data_transformers"),
)
