"""Polars: formats, and whether it has set the seed."""

from __future__ import annotations

import typing as t

from holdfast.libraries import Imported, Replay, Setting, set_each

_config = Imported("polars.config")


def _formats() -> dict[str, t.Any]:
    """Options that Polars keeps for itself; others are in the environment."""
    return {name: get() for name, get in _config._POLARS_CFG_DIRECT_VARS.items()}


DECLARATIONS = (
    Setting(
        "formats of numbers",
        _formats,
        lambda new: set_each(
            new, _formats(), lambda name, value: getattr(_config.Config, name)(value)
        ),
        "polars.config",
    ),
    # What has been drawn since the seed was set, nobody can ask for.
    Replay("seed", (("polars", "set_random_seed"),), is_repeated=False),
)
