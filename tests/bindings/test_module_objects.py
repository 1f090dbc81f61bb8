"""Objects that a module has (carry/module_objects.py): pickled by the module and the attribute, or not."""

import dataclasses
import importlib
import json
import os
import pickle
import sys
import types
import warnings
from unittest import mock

import pytest

import holdfast
from holdfast.carry import module_objects


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module of the user's own, with sentinels."""
    (tmp_path / "owned_here.py").write_text(
        "class Base:\n    pass\nclass Kind(Base):\n    def __bool__(self): return False\n"
        "UNSET = object()\nOTHER = Kind()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module_objects, "_sentinels", module_objects._Sentinels())
    import owned_here

    yield owned_here
    del sys.modules["owned_here"]


def test_sentinels_are_found(own_module):
    class Holds:
        value = own_module.UNSET

        def __init__(self):
            self.other = own_module.OTHER

    assert crossed(dataclasses.MISSING) is dataclasses.MISSING
    assert crossed([own_module.UNSET, {1: own_module.OTHER}]) == [
        own_module.UNSET,
        {1: own_module.OTHER},
    ]
    held = crossed(Holds())
    assert held.value is own_module.UNSET and held.other is own_module.OTHER


def test_an_object_of_nobodys_is_a_copy(own_module):
    assert crossed(object()) is not None
    mine = own_module.Kind()
    assert type(crossed(mine)) is own_module.Kind and crossed(mine) is not own_module.OTHER
    state = own_module.OTHER
    state.now = 1  # it is more than itself
    data = holdfast.dumps(state)
    del state.now
    assert holdfast.loads(data) is not state and holdfast.loads(data).now == 1


CONSTANTS = """
class Kind:
    def __init__(self, *given): self.given = given
class Equal(Kind):
    def __eq__(self, other): return isinstance(other, Equal)
CONSTANT, FLOAT, MUTABLE, EQUAL = Kind("a", (1, None), int), Kind(0.0), Kind([1]), Equal(1)
"""


@pytest.fixture
def constants(tmp_path, monkeypatch):
    """A module like a library's, with objects of its classes."""
    (tmp_path / "constants_here.py").write_text(CONSTANTS)
    monkeypatch.syspath_prepend(tmp_path)
    import constants_here

    yield constants_here
    del sys.modules["constants_here"]


def test_a_constant_of_a_library_is_the_librarys(constants):
    one, other = crossed((constants.CONSTANT, [constants.FLOAT]))
    assert one is constants.CONSTANT and other[0] is constants.FLOAT
    assert crossed(constants.Kind("a", (1, None), int)) is not constants.CONSTANT
    assert crossed(constants.MUTABLE) is not constants.MUTABLE
    assert crossed(constants.EQUAL) is not constants.EQUAL


@pytest.mark.parametrize("now", [(1,), (-0.0,), (False,), ()])
def test_one_that_was_changed_keeps_the_change(constants, now):
    before, constants.FLOAT.given = constants.FLOAT.given, now
    data = holdfast.dumps([constants.FLOAT] * 2)
    constants.FLOAT.given = before  # as it is in the process where it arrives
    one, same = holdfast.loads(data)
    assert one is same is not constants.FLOAT and repr(one.given) == repr(now)
    constants.FLOAT.given = now
    assert holdfast.loads(data)[0] is constants.FLOAT


def test_a_constant_that_has_another_name_now(constants):
    former, constants.CONSTANT = constants.CONSTANT, constants.Kind(2)
    assert crossed(former).given == former.given and crossed(former) is not constants.CONSTANT


def test_constants_of_the_users_own_modules_are_none(constants, monkeypatch):
    monkeypatch.setitem(module_objects.trial._own_modules, "constants_here", True)
    assert crossed(constants.CONSTANT) is not constants.CONSTANT


def test_a_name_that_means_another_object_is_not_used(own_module):
    former = own_module.UNSET
    assert crossed(former) is former
    own_module.UNSET = object()
    assert crossed(former) is not own_module.UNSET


def test_a_module_that_was_loaded_anew(own_module):
    assert crossed(own_module.UNSET) is own_module.UNSET
    importlib.reload(own_module)
    assert crossed(own_module.UNSET) is own_module.UNSET


def test_modules_that_cannot_be_imported_are_passed_over(monkeypatch):
    made = types.ModuleType("made_by_hand")
    made.UNSET = object()
    monkeypatch.setitem(sys.modules, "made_by_hand", made)
    assert type(crossed(made.UNSET)) is object


def test_what_settings_carry_is_the_module_s():
    assert crossed(os.environ) is os.environ and crossed([os.environb])[0] is os.environb


def test_nothing_of_a_class_is_asked_for():
    """A descriptor of MagicMock's would make a mock for each method."""
    magic = mock.MagicMock()
    before = dict(magic._mock_children)
    other = crossed(magic)
    assert magic._mock_children == before
    assert type(other).__name__ == "MagicMock" and len(other) == 0 and other.f(1) is other.f(1)


def test_an_object_in_the_place_of_a_module_is_found(tmp_path, monkeypatch):
    text = "import sys\nclass Kind:\n    x = 1\nsys.modules[__name__] = Kind()\n"
    (tmp_path / "stands_here.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import stands_here

    assert crossed(stands_here) is stands_here and stands_here.x == 1
    other = type(stands_here)()
    assert crossed(other) is not stands_here
    del sys.modules["stands_here"]


def test_lists_and_dicts_of_modules_have_stand_ins():
    names = {
        "path": sys.path,
        "modules": sys.modules,
        "filters": warnings.filters,
        "of_json": vars(json),
        "copy": list(sys.path),
        "like": {"__name__": "json"},
        "strange": {"__name__": []},
    }
    found = module_objects.stand_ins(names)
    assert {key for key, value in names.items() if id(value) in found} == {
        *("path", "modules", "filters", "of_json")
    }
    for value in (sys.path, sys.modules, warnings.filters, vars(json)):
        assert pickle.loads(pickle.dumps(found[id(value)])) is value
    assert module_objects.stand_ins(names) == found, "the same objects: the names didn't change"


def test_the_dict_of_a_module_that_cannot_be_imported_has_none(monkeypatch):
    made = types.ModuleType("made_by_hand")
    monkeypatch.setitem(sys.modules, "made_by_hand", made)
    assert (
        module_objects.stand_ins({"made": vars(made), "main": vars(sys.modules["__main__"])}) == {}
    )


def test_an_entry_of_a_modules_dict_is_found():
    """joblib compares its defaults by identity."""
    parallel = pytest.importorskip("joblib.parallel")
    for name, default in parallel.default_parallel_config.items():
        assert crossed([default])[0] is parallel.default_parallel_config[name]


def test_the_environment_is_itself_where_another_one_stands_for_it(monkeypatch):
    own, own_bytes = os.environ, os.environb
    monkeypatch.setattr(os, "environ", {"a": "b"})
    assert crossed(own) is own and crossed([own_bytes])[0] is own_bytes
    assert crossed(os.environ) == {"a": "b"}
