"""holdfast as a marshaller: what programs expect of dill and cloudpickle."""

import io
import os
import subprocess
import sys
import threading

import numpy as np
import effort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    value = np.arange(5000.0)
    stream = bytearray(holdfast.dumps(value))
    beside = stream.index(value.tobytes())  # head, sizes and meta come before the memory
    harmless = 0
    for at in range(beside):
        for flip in (0xFF, 0x01, 0x80):
            damaged = bytearray(stream)
            damaged[at] ^= flip
            try:
                back = holdfast.loads(damaged)
            except (EOFError, store.CorruptError):
                continue
            assert back.dtype == value.dtype and np.array_equal(back, value), at
            assert stream[at] == 0, at  # what fills the space between the parts
            harmless += 1
    assert harmless < 3 * 2 * 64


@settings(deadline=None, max_examples=effort.examples(50, 200))
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=20,
    ),
    data=st.data(),
)
def test_mutated_streams_are_refused_or_give_the_value(value, data):
    stream = bytearray(holdfast.dumps(value))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    try:
        back = holdfast.loads(stream)
    except (EOFError, store.CorruptError):
        return
    assert back == value


def test_a_meta_that_announces_millions_takes_no_memory():
    """Five bytes of msgpack announce 2^28 items, for which msgpack-c would take 6 GiB."""
    source = """
import struct, zlib, holdfast, math, re
from holdfast import store
stream = holdfast.dumps(math)
meta = b"\\x82\\xa4type\\xa6module\\xa4name\\xdd\\x10\\x00\\x00\\x00"
head = bytearray(stream[:28])
struct.pack_into("<I", head, 12, len(meta))
stream = bytes(head) + struct.pack("<I", zlib.crc32(meta, zlib.crc32(head))) + bytes(32) + meta + bytes(64)

def peak():
    return int(re.search(r"VmPeak:\\s*(\\d+)", open("/proc/self/status").read())[1]) << 10

before = peak()
try:
    holdfast.loads(stream)
except store.CorruptError as error:
    print(error, peak() - before < 1 << 30)
"""
    assert run(source).strip() == "the entry's meta is no map True"


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc what was allocated")
def test_counts_that_lie_ask_for_no_memory():
    """2**24 items announced in five bytes, and in nests of them, as a meta and as a payload."""
    source = (
        "import ctypes\nfrom holdfast import _store\n"
        "heads = [b'\\xdf\\x00\\xff\\xff\\xff', b'\\xdd\\x00\\xff\\xff\\xff']\n"
        "lies = heads + [b'\\x81\\xa1x' + head for head in heads] + [b'\\x91' * 60000]\n"
        "good, refused = _store._encode([1, 2])[1], 0\n"
        "for codec in (2, *range(16, 21)):\n"
        "    for meta, payload in [(lie, b'') for lie in lies] + [(good, lie) for lie in lies]:\n"
        "        try:\n"
        "            _store._decode(codec, meta, payload, [])\n"
        "        except _store.Error:\n"
        "            refused += 1\n"
        "print(refused, flush=True)\n"
        "ctypes.CDLL(None).malloc_stats()"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert int(done.stdout) == 60, done.stderr
    most = done.stderr.rpartition("max mmap bytes")[2].replace("=", "")
    assert int(most) < 16 << 20


def test_what_cannot_be_carried_says_so():
    with pytest.raises(store.Error, match=r"generator at value\['g'\]\[1\] \(TypeError: "):
        holdfast.dumps({"n": 1, "g": [2, (i for i in ())]})


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


def test_code_keeps_the_name_of_its_file():
    """Tracebacks find the source by it. cloudpickle has left it out since 3.1.3."""
    code = compile("def outer():\n    def inner(): pass\n    return inner", "somewhere.py", "exec")
    namespace = {"__name__": "__main__"}
    exec(code, namespace)
    outer = holdfast.loads(holdfast.dumps(namespace["outer"]))
    assert outer.__code__.co_filename == outer().__code__.co_filename == "somewhere.py"


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


# What a kernel does that hands the variables of a cell to a fresh process: definitions
# travel as source, the rest in three streams each way, through files or named pipes.
HAND_OVER = """
import os, sys
import holdfast

def dump(values, path):
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
        holdfast.dump(values, file)

def load(path):
    with os.fdopen(os.open(path, os.O_RDONLY), "rb") as file:
        return holdfast.load(file)

def dump_all(names, where):
    dump(dict(os.environ), where + "environ")
    dump(sys.path, where + "path")
    dump({name: value for name, value in globals().items() if name in names}, where + "variables")

def load_all(where, definitions):
    os.environ.update(load(where + "environ"))
    sys.path.extend(load(where + "path"))
    exec(definitions, globals())
    globals().update(load(where + "variables"))

mode, folder = sys.argv[1:]
there, back = folder + "/there-", folder + "/back-"
definitions = '''
import numpy as np
import pandas as pd
def square(x): return x * x + offset
class Point:
    def __init__(self, x): self.x = x
    def moved(self): return type(self)(self.x + offset)
'''
"""
HOME = (
    HAND_OVER
    + """
import subprocess
exec(definitions)
offset = 3
array = np.arange(100_000.0)
view = array[10:20]
frame = pd.DataFrame({"a": range(5), "s": list("abcde")})
row = [1, {2}]
table = {"row": row, "point": Point(4)}
scale = lambda x: square(x) + 1
os.environ["OF_HOME"] = "home"
if mode == "memory":
    for where in there, back:
        for what in "environ", "path", "variables":
            os.mkfifo(where + what)
cell = [sys.executable, folder + "/cell.py", mode, folder]
names = "offset array view frame row table scale".split()
if mode == "memory":
    process = subprocess.Popen(cell)
    dump_all(names, there)
    load_all(back, definitions)
    assert process.wait(60) == 0
else:
    dump_all(names, there)
    subprocess.run(cell, check=True)
    load_all(back, definitions)
assert os.environ["OF_CELL"] == "cell" and "/of/the/cell" in sys.path
assert array[10] == 99 and view.base is array and array[5] == -1
assert table["row"] is row and row == [1, {2}, 7] and table["point"].x == 11
assert result == [19, 8, 145.0] and frame["b"].tolist() == [0, 2, 4, 6, 8]
assert total.index.tolist() == [0, 1] and twice(2) == 14
print("both ways")
"""
)
CELL = (
    HAND_OVER
    + """
load_all(there, definitions)
assert os.environ["OF_HOME"] == "home"
def twice(x): return square(x) * 2
result = [square(4), scale(2), float(view.sum())]
view[0] = 99
array[5] = -1
row.append(7)
table["point"] = table["point"].moved().moved().moved()
table["point"].x -= 2
frame["b"] = frame["a"] * 2
total = pd.DataFrame(np.outer(view[:2], view[:2]))
os.environ["OF_CELL"] = "cell"
sys.path.append("/of/the/cell")
dump_all("array view row table frame result total twice".split(), back)
"""
)


@pytest.mark.parametrize("mode", ["memory", "disk"])
def test_variables_there_and_back_as_another_kernel_hands_them(mode, tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "home.py").write_text(HOME)
    (tmp_path / "cell.py").write_text(CELL)
    done = subprocess.run(
        [sys.executable, tmp_path / "home.py", mode, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "both ways\n"), done.stderr


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is of Python 3.12")
@pytest.mark.parametrize("made", ["type T = list[int]", "type T[A] = list[T[A]] | A"])
def test_a_type_statement_s_object_is_named(made):
    """Only its own process has it."""
    space = {"__name__": "__main__"}
    exec(made, space)  # noqa: S102
    with pytest.raises(store.Error, match="TypeAliasType at value .*Can't pickle T"):
        holdfast.dumps(space["T"])


def test_completion_finds_what_is_imported_later():
    assert {"dumps", "publish", "store"} <= {*dir(holdfast)}
