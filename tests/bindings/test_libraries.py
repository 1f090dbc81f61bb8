"""What is declared of libraries (holdfast/libraries): read, set, read again; and what another version lacks."""

import importlib
import sys

import pytest

from holdfast import codecs, libraries
from holdfast.libraries import MISSING, Counter, Imported, Registry, Replay, Setting, set_each
from holdfast.worker.settings import library_state
from holdfast.worker.settings.plain_settings import PlainSettings, Row
from holdfast.worker.settings.library_state import LibraryState

DECLARED = {
    f"{package}: {getattr(one, 'name', getattr(one, 'path', ''))}": one
    for package in sorted(libraries.FILES)
    for one in libraries.load(package)
}


def find(name):
    """A declaration of a library that is installed, which is imported."""
    one, package = DECLARED[name], name.partition(":")[0]
    pytest.importorskip(package)
    importlib.import_module(one.after or package)
    return one


def test_each_has_a_name_of_its_own():
    assert len(DECLARED) == sum(len(libraries.load(package)) for package in libraries.FILES)
    for one in DECLARED.values():
        assert isinstance(one, (Setting, Registry, Replay, Counter))
    assert libraries.load("no_such_package") == ()


@pytest.mark.parametrize(
    "name, code",
    [
        ("polars: formats of numbers", "import polars as it; it.Config.set_float_precision(2)"),
        ("scipy: errors of special functions", "import scipy.special as it; it.seterr(loss='warn')"),
        ("sympy: generator of random numbers", "import sympy.core.random as it; it.seed(4)"),
        ("numpy: state of the generator", "import numpy as it; it.random.seed(4)"),
        ("pandas: options", "import pandas as it; it.set_option('display.max_rows', 7)"),
        ("jax: options", "import jax as it; it.config.update('jax_debug_nans', True)"),
        ("torch: default type", "import torch as it; it.set_default_dtype(it.float64)"),
    ],
)  # fmt: skip
def test_what_was_set_is_set_again(name, code):
    one = find(name)
    before = one.get()
    exec(code)
    now = one.get()
    assert before is not None and now is not None and now != before
    one.set(before)
    assert one.get() == before
    one.set(now)
    assert one.get() == now
    one.set(before)


def test_an_option_that_cannot_be_set_costs_no_other():
    now = {"a": 1, "b": 1}

    def set_one(name, value):
        if name not in now:
            raise KeyError("no such option")
        now[name] = value

    with pytest.raises(ValueError, match="new: 'no such option'"):
        set_each({"a": 2, "new": 1, "b": 1}, now, set_one)
    assert now == {"a": 2, "b": 1}


def test_the_processors_mode_is_seen_in_pythons_floats():
    one = find("torch: denormal numbers")
    assert one.get() is False
    if not sys.modules["torch"].set_flush_denormal(True):
        pytest.skip("the processor has no such mode")
    try:
        assert one.get() is True
    finally:
        one.set(False)
    assert one.get() is False


def test_a_device_that_is_no_text_is_only_reported():
    one = find("jax: default device")
    jax = sys.modules["jax"]
    with jax.default_device("cpu"):
        assert one.get() == ""
    with jax.default_device(jax.devices("cpu")[0]):
        assert "CPU" in one.get().upper()


def own_class(module="__main__"):
    """As the notebook makes one."""
    return type("My", (), {"__module__": module, "__init__": lambda self, owner: None})


# ---- another version of a library


def begin(package, monkeypatch, ask):
    """The process begins where the library answers by `ask`; what is left out."""
    with monkeypatch.context() as patch:
        patch.setattr(Imported, "__getattr__", ask)
        patch.setattr(libraries, "FILES", {package})
        patch.setattr(libraries, "unusable", {})
        patch.setattr(library_state, "plain_settings", PlainSettings())
        LibraryState().begin(None)
        return libraries.unusable


@pytest.mark.parametrize("package", sorted(libraries.FILES - {"standard"}))
def test_an_attribute_that_is_gone_costs_what_names_it(package, monkeypatch, capfd):
    """Each that is asked for at the import, in turn. Nothing is raised or written; what is left out is known."""
    pytest.importorskip(package)
    capfd.readouterr()
    ask, asked_for = Imported.__getattr__, set()

    def note(self, attribute):
        asked_for.add((self._name, attribute))
        return ask(self, attribute)

    assert begin(package, monkeypatch, note) == {}
    for gone in sorted(asked_for):

        def lacks(self, attribute, gone=gone):
            if (self._name, attribute) == gone:
                raise AttributeError(f"module {gone[0]!r} has no attribute {gone[1]!r}")
            return ask(self, attribute)

        left_out = begin(package, monkeypatch, lacks)
        assert any(gone[1] in why for why in left_out.values()), gone
        assert len(left_out) < len(libraries.load(package)) or len(left_out) == 1
    assert capfd.readouterr() == ("", "")


# ---- other packages' declarations


class Point:
    """An entry point."""

    value = "mine:DECLARATIONS"

    def __init__(self, found):
        self._found = found

    def load(self):
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@pytest.mark.parametrize(
    "found, why",
    [
        ([Setting("edge", lambda: 1)], None),
        ([3], "TypeError: it isn't a sequence of declarations"),
        (ImportError("no module boards"), "ImportError: no module boards"),
        (3, "TypeError: 'int' object is not iterable"),
    ],
)
def test_an_entry_point_adds_to_what_is_declared(found, why, monkeypatch):
    points = {
        codecs.GROUP: {},
        codecs.OF_LIBRARIES: {"seaborn": Point(found), "mine": Point(found)},
    }
    monkeypatch.setattr(codecs, "_entry_points", points)
    monkeypatch.setattr(libraries, "unusable", {})
    added = 1 if why is None else 0
    assert libraries.has("mine") and len(libraries.load("mine")) == added
    assert len(libraries.load("seaborn")) == 1 + added
    assert set(libraries.unusable.values()) == ({why} if why else set())


# ---- settings that wait, and what two processes have set in one


def plain_settings(*declared):
    """How a process begins with these settings of `json`."""
    found = PlainSettings()
    found.begin(None)
    for name, row in declared:
        found.add(name, row)
    return found


def test_a_late_setting_waits_for_the_next_cell_or_for_one_that_needs_it(monkeypatch):
    there = {"value": 1}
    row = Row(
        "waits_here", lambda: there["value"], lambda new: there.update(value=new),
        late=lambda code: "needed" in code,
    )  # fmt: skip
    process = plain_settings(("waits_here: value", row))
    process.apply({"waits_here: value": 2}, None, None)
    process.settle("other")
    assert there["value"] == 1 and process.capture(None) == {"waits_here: value": 2}
    process.settle("needed")
    assert there["value"] == 2 and process.capture(None) == {}
    process.apply({"waits_here: value": 3}, None, None)
    monkeypatch.setitem(sys.modules, "waits_here", sys)
    process.settle()
    assert there["value"] == 3


def test_of_a_dict_the_keys_are_set_that_another_process_has_changed():
    """What a thread has set here meanwhile stays."""
    there = {"a": 1, "b": 1, "c": 1}

    def put(new):
        there.clear()
        there.update(new)

    process = plain_settings(("sys: all", Row("sys", lambda: dict(there), put)))
    before = dict(there)
    there["thread"] = there["b"] = 2
    process.apply({"sys: all": {"a": 3, "b": 1}}, {"sys: all": before}, None)
    assert there == {"a": 3, "b": 2, "thread": 2}


def test_a_setting_that_is_compared_with_how_it_began(monkeypatch):
    there = ["own"]
    declared = Setting(
        "list",
        lambda begun: there[len(begun) :] or MISSING,
        lambda begun, new: there.__setitem__(
            slice(len(begun), None), [] if new is MISSING else new
        ),
        "sys",
        has_values=True,
        begin=lambda: list(there),
    )
    monkeypatch.setattr(libraries, "load", lambda package: (declared,) if package == "sys" else ())
    monkeypatch.setattr(libraries, "has", lambda package: package == "sys")
    slot = LibraryState().begin(None)["sys: list"]
    assert slot.read() is MISSING
    there.append("mine")
    assert slot.read() == ["mine"]
    slot.write(MISSING)
    assert there == ["own"]
    slot.write(["theirs"])
    assert there == ["own", "theirs"]
