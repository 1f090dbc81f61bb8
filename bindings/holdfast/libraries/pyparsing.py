"""pyparsing: what counts as white space."""

from __future__ import annotations

from . import Imported, Registry

_core = Imported("pyparsing.core")


def _set_whitespace() -> None:
    """The expressions that pyparsing itself has made, too."""
    element = _core.ParserElement
    element.set_default_whitespace_chars(element.DEFAULT_WHITE_CHARS)


DECLARATIONS = (
    Registry(
        "white space",
        "pyparsing.core",
        "ParserElement",
        ("DEFAULT_WHITE_CHARS",),
        then=_set_whitespace,
    ),
)
