"""Arrays of a session in a program that doesn't have NumPy: memoryviews with format and shape."""

import gc
import json
import subprocess
import sys

import numpy as np
import pytest

from holdfast import store

VALUES = {
    "large": np.arange(100_000.0).reshape(100, 1000),
    "small": np.arange(6, dtype=np.int16).reshape(2, 3),
    "scalar": np.array(7, dtype=np.uint64),
    "none": np.zeros((0, 3)),
    "swapped": np.arange(4, dtype=">f8"),
    "backwards": np.arange(50_000)[::-1],
    "column": np.arange(90_000, dtype=np.uint8).reshape(300, 300)[:, 2],
    "bools": np.array([True, False]),
    "complex": np.array([1j]),
    "texts": np.array(["ab", "cde"]),
    "words": np.array([b"ab", b"cde"]),
    "times": np.array(["2020-01-01"], dtype="M8[s]"),
    "records": np.zeros(3, dtype=[("a", "f8")]),
    "objects": np.array([None, 1], dtype=object),
}
NO_FORMAT = {"times", "records", "objects"}
PROGRAM = """
import json, sys
sys.modules["numpy"] = None
from holdfast import store
with store.Session.open(sys.argv[1]) as s:
    views = {}
    for name in sys.argv[2:]:
        try:
            views[name] = s[name]
        except store.Error as error:
            views[name] = str(error)
    s["mine"] = 1
    s.commit()
said = {
    name: view if isinstance(view, str) else [view.format, view.shape, view.strides, view.tobytes().hex()]
    for name, view in views.items()  # of a closed session
}
print(json.dumps(said))
assert "numpy" not in {name.partition(".")[0] for name, one in sys.modules.items() if one is not None}
"""


def look(session, *names):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, session.name, *names], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_without_numpy_an_array_is_a_memoryview(session):
    with store.Session.open(session.name) as owner:
        owner.update(VALUES)
        owner["part"] = VALUES["large"][3:7:2, ::-1]  # shares memory: both are in a group
        owner.commit()
        said = look(session, *VALUES, "part")
        for name in NO_FORMAT:
            assert "numpy" in said.pop(name)
        for name, (kind, shape, strides, content) in said.items():
            value = VALUES.get(name, owner["part"])
            there = memoryview(value)
            assert kind == there.format.replace("l", "q").replace("L", "Q"), name
            assert tuple(shape) == there.shape and content == value.tobytes().hex(), name
            assert value.size == 0 or tuple(strides) == there.strides, name
        owner.refresh()  # the program's commit left them as they are
        assert owner["mine"] == 1
    with store.Session.open(session.name) as again:
        for name in VALUES:
            assert type(again[name]) is np.ndarray
            np.testing.assert_array_equal(again[name], VALUES[name])


def test_a_view_is_read_only_and_outlives_its_session(session):
    with store.Session.open(session.name) as owner:
        owner["x"] = np.arange(50_000.0)
        owner.commit()
        names = store.Names(owner)
        names.bind({}, names=(), budget=-1)
        view = names.view("x")
        assert names.view("y") is None and view.readonly and view[4] == 4.0
        with pytest.raises(TypeError):
            view[4] = 5.0
        assert np.asarray(view).sum() == np.arange(50_000.0).sum()
        owner["x"] = 1
        owner.commit()
    del names
    gc.collect()
    assert view[49_999] == 49_999.0
    assert b"".join([view[:1]]) == view[:1].tobytes()
    with pytest.raises(TypeError):
        b"".join([view.obj])  # without its shape
