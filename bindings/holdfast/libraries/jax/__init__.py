"""JAX: its options, and the notebook's own containers."""

from __future__ import annotations

import typing as t

from holdfast.libraries import Imported, Replay, Setting, set_each

jax = Imported("jax")

_PLAIN = (bool, int, float, str, type(None))


def _options() -> dict[str, t.Any]:
    return {name: one for name, one in jax.config.values.items() if isinstance(one, _PLAIN)}


def _device() -> str:
    """The device that arrays are made on, if it isn't named by a text."""
    device = jax.config.jax_default_device
    return "" if isinstance(device, _PLAIN) else str(device)


DECLARATIONS = (
    Setting(
        "options",
        _options,
        lambda new: set_each(new, _options(), lambda name, one: jax.config.update(name, one)),
    ),
    Setting("default device", _device, fresh=""),
    *(
        Replay(f"{name}()", (("jax.tree_util", name),))
        for name in (
            "register_dataclass",
            "register_pytree_node",
            "register_pytree_node_class",
            "register_pytree_with_keys",
            "register_pytree_with_keys_class",
        )
    ),
)
