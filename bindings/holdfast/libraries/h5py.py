"""h5py: its configuration."""

from __future__ import annotations

import typing as t

from . import Imported, Setting, set_each

h5py = Imported("h5py")

_OPTIONS = ("complex_names", "bool_names", "track_order")


def _options() -> dict[str, t.Any]:
    config = h5py.get_config()
    return {name: getattr(config, name) for name in _OPTIONS if hasattr(config, name)}


DECLARATIONS = (
    Setting(
        "configuration",
        _options,
        lambda new: set_each(
            new, _options(), lambda name, one: setattr(h5py.get_config(), name, one)
        ),
    ),
)
