"""PyTorch's modes that are open between cells (modes.py): carried, and put aside while we call PyTorch."""

import pytest
from needed import needed

from holdfast._patches import MISSING
from holdfast.worker.settings import rows
from holdfast.worker.settings.modes import Modes

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
    Modes().slot().write(MISSING)
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
    slot, first, second, operations = modes.slot(), noting(), noting(), dispatching()
    assert slot.read() is MISSING
    for mode in (first, second, operations):
        mode.__enter__()
    carried = slot.read()
    assert carried == {"function": [first, second], "dispatch": [operations]}
    slot.write(MISSING)
    assert slot.read() is MISSING and not is_dispatching()
    with modes.aside():
        assert slot.read() is MISSING
        slot.write(carried)
        tensor.add(1)
        assert slot.read() == carried and first.names == []
    tensor.add(1)
    assert slot.read() == carried and first.names == second.names == ["add"]
    assert is_dispatching()
    for mode in (operations, second, first):
        mode.__exit__(None, None, None)
    assert slot.read() is MISSING and not is_dispatching()


def test_the_default_device_is_none_of_them(tensor):
    slot = Modes().slot()
    torch.set_default_device("meta")
    assert slot.read() is MISSING
    slot.write({"function": [names := noting()]})
    made = torch.ones(1)
    slot.write(MISSING)
    assert names.names == ["ones"] and made.device.type == "meta"
    assert torch.ones(1).device.type == "meta"


def test_the_device_of_a_context_that_is_open_is_known(tensor):
    row = rows.ROWS["PyTorch's device in a context that is open"]
    assert rows.read(row, None) == ""
    with torch.device("meta"):
        assert rows.read(row, None) == "meta"
    torch.set_default_device("meta")
    assert rows.read(row, None) == ""
