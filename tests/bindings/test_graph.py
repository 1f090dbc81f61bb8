"""The walk over live objects, while what it asks changes them.

Each program runs in a process of its own, with an allocator that overwrites what is freed: a
pointer that outlived its object is a crash there.
"""

import subprocess
import sys

import pytest

START = """
import gc, sys, threading, weakref
from holdfast import _store, codecs

class Part:
    def __init__(self, number):
        self.inner = [number, [str(number)]]
        self.again = self.inner

def fill():
    x[:] = [[Part(n), make(n), [n, [n]]] for n in range(50)]

x, changes = [], 0

def change():
    global changes
    changes += 1
    if changes < 9:
        x.clear()
        gc.collect()
        [bytearray(64) for _ in range(999)]
        fill()
"""

# How code in Python comes to run under the walk.
WAYS = {
    "a codec's shares": """
class Value(Part):
    pass
class Values(codecs.Codec):
    types = ("__main__.Value",)
    def shares(self, value):
        change()
        return [value.inner, object()]
codecs.register(Values())
make = Value
""",
    "the search for a codec": """
class Meta(type):
    def __hash__(cls):
        change()
        return 1
make = Meta("Value", (Part,), {"__module__": "elsewhere"})
""",
    "a metaclass": """
class Meta(type):
    def __getattribute__(cls, name):
        if name == "__module__":
            change()
        return super().__getattribute__(name)
class Value(Part, metaclass=Meta):
    pass
kept = []
def make(number):
    made = Value(number)
    kept.append(weakref.ref(made))
    return made
""",
    "an array's own attributes": """
import numpy as np
class Array(np.ndarray):
    @property
    def base(self):
        change()
        return super().base
    @property
    def size(self):
        change()
        return 5
def make(number):
    array = np.empty(4, object).view(Array)
    array[:] = [[number], [[number]], Part(number), None]
    return [array, array[::2]]
""",
    "classes that are reported": """
class Values(codecs.Codec):
    types = ("__main__.Base",)
    def shares(self, value):
        change()
        return ()
codecs.register(Values())
class Base:
    pass
def make(number):
    cls = type("Value", (Base,), {"held": [number], "f": eval("lambda self: 1")})
    return [cls(), cls]
""",
}

SAVE = """
from holdfast.store import Names, Session
import __main__
session = Session.create(label="test")
try:
    fill()
    names = Names(session)
    for turn in range(3):
        names.save(vars(__main__), touched=None, hidden={"session", "names", "Names", "Session"})
        assert _store.groups({"x": x, "y": x})
        _store.is_larger([x], 10**9, vars(__main__))
finally:
    session.destroy()
print("changed", changes > 0)
"""


def run(source):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", source],
        env={"PYTHONMALLOC": "debug", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("way", WAYS)
def test_code_that_runs_under_a_walk_may_change_what_is_walked(way):
    done = run(START + WAYS[way] + SAVE)
    assert done.returncode == 0, done.stderr[-2000:]


RELEASED = {
    "of a BytesIO": "x[:] = [io.BytesIO(b'12345').getbuffer()]\nx[0].release()",
    "a view's view": "x[:] = [memoryview(io.BytesIO(b'12345').getbuffer())]\nx[0].release()",
    "below an array": "import numpy as np\n"
    "x[:] = [np.frombuffer(io.BytesIO(b'12345').getbuffer(), 'u1')]\nx[0].base.release()",
}


@pytest.mark.parametrize("what", RELEASED)
def test_a_released_view_leads_nowhere(what):
    source = RELEASED[what].replace("\n", "\n    ")
    done = run(START + f"import io\ndef fill():\n    {source}\n" + SAVE)
    assert done.returncode == 0, done.stderr[-2000:]


def test_threads_may_change_what_is_walked():
    done = run(
        START
        + """
import contextvars
def make(number):
    variable = contextvars.ContextVar(str(number))
    variable.set([number])
    return variable

def replace():
    while not stop.is_set():
        fill()

sys.setswitchinterval(1e-6)
stop = threading.Event()
fill()
threads = [threading.Thread(target=replace) for _ in range(2)]
for thread in threads:
    thread.start()
for turn in range(30):
    _store.groups({"x": x, "y": [x[-1:]]})
stop.set()
for thread in threads:
    thread.join()
"""
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_elements_of_structured_arrays_are_shared():
    import numpy as np
    from holdfast import _store

    one = [1]
    array = np.zeros(3, dtype=[("number", "i4"), ("object", object)])
    array["object"][1] = one
    assert _store.groups({"a": array, "b": one, "c": [2]}) == [["a", "b"], ["c"]]
