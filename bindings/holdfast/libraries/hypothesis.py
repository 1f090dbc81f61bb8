"""hypothesis: strategies for types."""

from __future__ import annotations

from . import Imported, Registry

_core = Imported("hypothesis.strategies._internal.core")


def _forget_strategies() -> None:
    """Drop the strategies that hypothesis has cached for types."""
    if _core:
        _core.from_type.__clear_cache()


DECLARATIONS = (
    Registry(
        "strategies for types",
        "hypothesis.strategies._internal.types",
        "",
        ("_global_type_lookup",),
        fixed=True,
        then=_forget_strategies,
    ),
)
