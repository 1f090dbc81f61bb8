"""PyTorch's modes that a cell has entered and not left: a setting in `libraries/torch/__init__.py`.

A `TorchFunctionMode` sees each call of a PyTorch function. A `TorchDispatchMode` sees each operation. The codecs call
PyTorch, too, to read and write tensors. So the notebook's modes are put aside meanwhile (`aside`). The default device
is a mode, too, but a setting of its own.
"""

from __future__ import annotations

import contextlib
import sys
import typing as t

from holdfast.libraries import MISSING

Stacks = dict[str, list[t.Any]]  # by kind; the mode that was entered last is at the end

_KINDS = ("function", "dispatch")
_PYTHON_DISPATCH = "torch.utils._python_dispatch"


class Modes:
    """The modes of the thread that runs the cells."""

    def __init__(self) -> None:
        self._aside: Stacks | None = None

    @contextlib.contextmanager
    def aside(self) -> t.Iterator[None]:
        """Hide calls that are made meanwhile from the modes."""
        if self._aside is not None:
            yield
            return
        self._aside = {}
        for kind in _KINDS:
            if stack := _stack(kind):
                self._aside[kind] = stack
                _pop(kind, len(stack))
        try:
            yield
        finally:
            stacks, self._aside = self._aside, None
            for kind, stack in stacks.items():
                _push(kind, stack)

    def get(self) -> t.Any:
        stacks = self._aside
        if stacks is None:
            stacks = {kind: stack for kind in _KINDS if (stack := _stack(kind))}
        return {kind: list(stack) for kind, stack in stacks.items()} or MISSING

    def set(self, new: t.Any) -> None:
        wanted = {} if new is MISSING else {kind: list(stack) for kind, stack in new.items()}
        with self.aside():
            self._aside = wanted
            _note_dispatch(wanted.get("dispatch", []))


def _stack(kind: str) -> list[t.Any]:
    """The modes without the default device, which is the first one. None of them while PyTorch
    itself has entered some of its own."""
    core = sys.modules.get("torch._C")
    if core is None or not hasattr(core, f"_len_torch_{kind}_stack"):
        return []
    count = getattr(core, f"_len_torch_{kind}_stack")()
    stack = [getattr(core, f"_get_{kind}_stack_at")(place) for place in range(count)]
    if any(getattr(mode, "_mode_key", None) is not None for mode in stack):
        return []
    return stack[1:] if stack and type(stack[0]).__name__ == "DeviceContext" else stack


def _pop(kind: str, count: int) -> None:
    pop = getattr(sys.modules["torch._C"], f"_pop_torch_{kind}_stack")
    for _ in range(count):
        pop(*[None] * (kind == "dispatch"))


def _push(kind: str, stack: list[t.Any]) -> None:
    for mode in stack:
        getattr(sys.modules["torch._C"], f"_push_on_torch_{kind}_stack")(mode)


def _note_dispatch(stack: list[t.Any]) -> None:
    """Set what PyTorch notes when a mode is entered, and resets when it is left."""
    module: t.Any = sys.modules[_PYTHON_DISPATCH]
    noted = {
        "_is_in_torch_dispatch_mode": bool(stack),
        "_is_in_non_infra_torch_dispatch_mode": bool(stack),
        "_is_in_any_mode_without_ignore_compile_internals": not all(
            getattr(mode, "ignore_compile_internals", bool)() for mode in stack
        ),
    }
    for name, value in noted.items():
        if name in vars(module):
            setattr(module, name, value)
    if hasattr(module, "set_is_in_mode_without_ignore_compile_internals"):
        module.set_is_in_mode_without_ignore_compile_internals([*noted.values()][-1])


modes = Modes()
