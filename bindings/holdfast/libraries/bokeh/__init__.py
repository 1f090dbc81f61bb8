"""Bokeh: the current document, and whether the notebook shows plots."""

from holdfast.libraries import Registry

DECLARATIONS = (
    Registry("current document", "bokeh.io.state", "", ("_STATE",)),
    Registry("notebook", "bokeh.io.notebook", "", ("_NOTEBOOK_LOADED",)),
)
