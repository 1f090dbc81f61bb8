"""Settings of PyTorch and JAX in a process: random generators, and what new tensors are.

Of PyTorch the state of the default generator (on the CPU), the default type, whether gradients are
recorded, the number of threads, and whether algorithms are deterministic; of JAX all options that are plain
values. If a library isn't imported, its settings wait until it is, and are carried
on as they came; it is never imported for them.
"""

from __future__ import annotations

import ctypes
import sys
import typing as t

from holdfast._after_import import call_after_import

from .. import notices

Settings = dict[str, t.Any]

_PLAIN = (bool, int, float, str, type(None))

_waiting: dict[str, Settings] = {}


def capture() -> dict[str, Settings] | None:
    """The settings of this process by library, None if nobody has asked for any."""
    found = dict(_waiting)
    for library, (_, capture_one, _) in _LIBRARIES.items():
        if _is_there(library):
            found[library] = capture_one()
    return found or None


def apply(new: dict[str, Settings]) -> None:
    """Make them this process's settings, now or once a library is imported."""
    for library, settings in new.items():
        if library in sys.modules:
            _apply_now(library, settings)
            continue
        if library not in _waiting:
            call_after_import(library, _apply_waiting(library))
        _waiting[library] = settings


def _is_there(library: str) -> bool:
    """Not while it is being imported."""
    return hasattr(sys.modules.get(library), _LIBRARIES[library][0])


def _apply_waiting(library: str) -> t.Callable[[], None]:
    return lambda: _apply_now(library, _waiting.pop(library, {}))


def _apply_now(library: str, new: Settings) -> None:
    _, capture_one, set_one = _LIBRARIES[library]
    current = capture_one()
    for name, value in new.items():
        if current.get(name) != value:
            try:
                set_one(name, value)
            except Exception as error:  # what one can't have costs no other
                notices.not_carried_over(f"{name} of {library}", error)


def _capture_torch() -> Settings:
    import torch

    generator = torch.get_rng_state()  # 5 KB of memory, in each commit: no list of numbers
    return {
        "generator": ctypes.string_at(generator.data_ptr(), generator.numel()),
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
    }


def _set_torch(name: str, value: t.Any) -> None:
    import torch

    if name == "generator":
        torch.set_rng_state(torch.frombuffer(bytearray(value), dtype=torch.uint8))
    elif name == "dtype":
        torch.set_default_dtype(getattr(torch, value))
    elif name == "gradients":
        torch.set_grad_enabled(value)
    elif name == "threads":
        torch.set_num_threads(value)
    elif name == "deterministic":
        torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _capture_jax() -> Settings:
    import jax

    return {name: value for name, value in jax.config.values.items() if isinstance(value, _PLAIN)}


def _set_jax(name: str, value: t.Any) -> None:
    import jax

    jax.config.update(name, value)


# Library -> what is there once it is imported, and how its settings are read and set.
_LIBRARIES: dict[str, tuple[str, t.Callable[[], Settings], t.Callable[[str, t.Any], None]]] = {
    "torch": ("set_grad_enabled", _capture_torch, _set_torch),
    "jax": ("jit", _capture_jax, _set_jax),
}
