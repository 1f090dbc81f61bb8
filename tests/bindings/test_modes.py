"""PyTorch's modes that are open between cells (_torch_modes.py): carried, and put aside while we call PyTorch."""

import pytest
from needed import needed

from holdfast.carry.patches import MISSING
from holdfast.libraries.torch.modes import Modes
from holdfast.libraries.torch import _open_device

torch = needed("torch")


def noting():
    """A mode that notes the functions' names."""

    class Names(torch.overrides.TorchFunctionMode):
        def __init__(self):
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    return Names()


def dispatching():
    """A mode of operations, which does nothing."""

    class Operations(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    return Operations()


def is_dispatching():
    return torch.utils._python_dispatch._is_in_torch_dispatch_mode


@pytest.fixture
def tensor():
    yield torch.ones(2)
    Modes().set(MISSING)
    torch.set_default_device(None)


def test_they_see_nothing_while_they_are_put_aside(tensor):
    modes, names = Modes(), noting()
    with names:
        with modes.aside(), modes.aside():
            tensor.add(1)
        assert names.names == []
        tensor.add(1)
    assert names.names == ["add"]


def test_what_is_carried_is_at_work_afterwards(tensor):
    modes = Modes()
    slot, first, second, operations = modes, noting(), noting(), dispatching()
    assert slot.get() is MISSING
    for mode in (first, second, operations):
        mode.__enter__()
    carried = slot.get()
    assert carried == {"function": [first, second], "dispatch": [operations]}
    slot.set(MISSING)
    assert slot.get() is MISSING and not is_dispatching()
    with modes.aside():
        assert slot.get() is MISSING
        slot.set(carried)
        tensor.add(1)
        assert slot.get() == carried and first.names == []
    tensor.add(1)
    assert slot.get() == carried and first.names == second.names == ["add"]
    assert is_dispatching()
    for mode in (operations, second, first):
        mode.__exit__(None, None, None)
    assert slot.get() is MISSING and not is_dispatching()


def test_the_default_device_is_none_of_them(tensor):
    slot = Modes()
    torch.set_default_device("meta")
    assert slot.get() is MISSING
    slot.set({"function": [names := noting()]})
    made = torch.ones(1)
    slot.set(MISSING)
    assert names.names == ["ones"] and made.device.type == "meta"
    assert torch.ones(1).device.type == "meta"


def test_the_device_of_a_context_that_is_open_is_known(tensor):
    assert _open_device() == ""
    with torch.device("meta"):
        assert _open_device() == "meta"
    torch.set_default_device("meta")
    assert _open_device() == ""
