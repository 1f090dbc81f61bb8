"""Plotly: renderers, templates, and the defaults of figures."""

from holdfast.libraries import Registry

DECLARATIONS = (
    Registry("renderers", "plotly.io._renderers", "renderers"),
    Registry(
        "templates",
        "plotly.io._templates",
        "templates",
        ("_default", "_templates"),
        lambda begun: type(begun) is object,
    ),
    Registry("defaults", "plotly.io._defaults", "defaults"),
    Registry("defaults of Plotly Express", "plotly.express._core", "defaults"),
)
