"""PyTorch's settings of a process: its random generator, and what new tensors are.

The state of the default generator (on the CPU), the default type, whether gradients are
recorded, and the number of threads. Where PyTorch isn't imported they wait until it is, and
travel on as they came; it is never imported for them.
"""

from __future__ import annotations

import sys
import typing as t

from .arrays import _AfterImport

_waiting: dict[str, t.Any] | None = None


def capture() -> dict[str, t.Any] | None:
    """The settings of this process, None where nobody has asked for any."""
    torch = sys.modules.get("torch")
    if not hasattr(torch, "set_grad_enabled"):  # not there, or being imported
        return _waiting
    return {
        "generator": bytes(torch.get_rng_state().tolist()),
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
    }


def apply(new: dict[str, t.Any]) -> None:
    """Make them this process's settings, now or once PyTorch is imported."""
    global _waiting
    if "torch" in sys.modules:
        _apply_now(new)
        return
    if _waiting is None:
        sys.meta_path.insert(0, _AfterImport("torch", lambda: _apply_now(_waiting or {})))
    _waiting = new


def _apply_now(new: dict[str, t.Any]) -> None:
    import torch

    current = capture() or {}
    setters = {
        "generator": lambda state: torch.set_rng_state(
            torch.tensor(list(state), dtype=torch.uint8, device="cpu")
        ),
        "dtype": lambda name: torch.set_default_dtype(getattr(torch, name)),
        "gradients": torch.set_grad_enabled,
        "threads": torch.set_num_threads,
    }
    for name, value in new.items():
        if current.get(name) != value:
            setters[name](value)
