"""holdfast as a marshaller: what programs expect of dill and cloudpickle."""

import io
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import holdfast
from holdfast import store

VALUES = [
    None,
    7,
    "text",
    [1, (2, {"a": {3}})],
    b"x" * 100_000,
    {"x": np.arange(20_000.0), "y": [np.ones(3), np.zeros((300, 300)).T]},
    np.arange(30_000)[::2],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_round_trip(value):
    back = holdfast.loads(holdfast.dumps(value))
    assert type(back) is type(value)
    np.testing.assert_equal(back, value)


def test_arrays_are_writable_and_aligned_in_the_stream():
    stream = holdfast.dumps(np.full(50_000, 3.0))
    assert stream.index(np.full(8, 3.0).tobytes()) % 64 == 0
    back = holdfast.loads(stream)
    back[0] = 1
    assert back.sum() == 149_998


def test_several_values_in_one_file_and_views(tmp_path):
    array = np.arange(10_000.0)
    with open(tmp_path / "f", "wb") as file:
        holdfast.dump({"a": array, "v": array[5:]}, file)
        holdfast.dump("second", file)
    with open(tmp_path / "f", "rb") as file:
        first = holdfast.load(file)
        assert holdfast.load(file) == "second"
        with pytest.raises(EOFError):
            holdfast.load(file)
    first["v"][0] = -1
    assert first["a"][5] == -1


def test_through_a_pipe():
    value = {"a": np.arange(1_000_000), "b": list(range(1000))}
    read, write = os.pipe()

    def send():
        with open(write, "wb", buffering=0) as file:
            holdfast.dump(value, file)

    thread = threading.Thread(target=send)
    thread.start()
    with open(read, "rb", buffering=0) as file:
        back = holdfast.load(file)
    thread.join()
    np.testing.assert_equal(back, value)


def test_a_file_with_read_only():
    class Reads:
        def __init__(self, data):
            self.read = io.BytesIO(data).read

    assert holdfast.load(Reads(holdfast.dumps([1, 2]))) == [1, 2]


@pytest.mark.parametrize("cut", [0, 3, 20, 60, 1000, 100_050])
def test_a_stream_that_is_cut(cut):
    stream = holdfast.dumps(b"x" * 100_000)
    with pytest.raises(EOFError):
        holdfast.loads(stream[:cut])


def test_a_stream_that_is_something_else():
    with pytest.raises(store.CorruptError, match="not a holdfast stream"):
        holdfast.loads(b"\x80\x05" + bytes(100))


def test_damaged_heads_do_not_crash():
    stream = bytearray(holdfast.dumps(np.arange(5000.0)))
    for at in range(200):
        damaged = bytearray(stream)
        damaged[at] ^= 0xFF
        try:
            holdfast.loads(damaged)
        except (EOFError, store.Error, MemoryError, OverflowError):
            pass


def test_what_cannot_be_carried_says_so():
    with pytest.raises(store.Error, match="generator"):
        holdfast.dumps({"g": (i for i in ())})


def run(source, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_and_classes_in_another_process(tmp_path):
    run(
        """
import sys, holdfast
base = 10
class Point:
    def __init__(self, x): self.x = x
    def moved(self): return Point(self.x + base)
def area(p): return p.x * base
with open(sys.argv[1], "wb") as file:
    holdfast.dump({"p": Point(1), "area": area, "Point": Point}, file)
""",
        tmp_path / "f",
    )
    assert (
        run(
            """
import sys, holdfast
with open(sys.argv[1], "rb") as file:
    values = holdfast.load(file)
print(values["area"](values["p"].moved()), type(values["p"]) is values["Point"])
""",
            tmp_path / "f",
        )
        == "110 True\n"
    )


def test_a_whole_module(tmp_path):
    run(
        """
import sys, holdfast
import math as m
k = 2
def f(): return k * m.floor(1.5)
lst = [1]; same = lst
path = sys.argv[1]
holdfast.dump_module(path)
""",
        tmp_path / "f",
    )
    assert (
        run(
            """
import sys, holdfast
holdfast.load_module(sys.argv[1])
k = 5
print(f(), same is lst)
""",
            tmp_path / "f",
        )
        == "5 True\n"
    )
