"""Values that change while they are encoded: by other threads, and by code that encoding runs.

Each program is a process of its own, whose freed memory is filled with another pattern.
"""

import subprocess
import sys

START = """
import sys, threading
import numpy as np
from holdfast.store import Names, Session
session = Session.create(label="test")
names = Names(session)
def save(ns):
    saved = names.save(ns)
    if saved["prepared"] is not None:
        names.published(session.publish(saved["prepared"]))
    return saved
"""
END = """
session.destroy()
session.close()
"""


def run(source):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", START + source + END],
        env={"PYTHONMALLOC": "debug", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_threads_change_what_is_saved():
    run(
        """
class Plain:
    def __init__(self, n): self.n, self.parts = n, [n]
class Own(Plain):
    def __eq__(self, other): return isinstance(other, Own) and self.n == other.n
    def __hash__(self): return hash(str(self.n))
    def __reduce_ex__(self, protocol): return Own, (self.n,), dict(self.__dict__)
    def __repr__(self): return "own"
def change(turn):
    ns["list"][:] = [Own(turn), [turn], {"a": (turn,)}, Plain(turn)] * 3
    ns["dict"].clear()
    ns["dict"].update({str(n): [Own(n), n] for n in range(turn % 7)})
    ns["set"] ^= {Own(turn % 5), (turn % 3, "x")}
    ns["objects"][:] = [[turn], Own(turn), str(turn), None]
    ns["object"].__dict__ = {"n": turn, "other": ns["list"]}
    ns["nest"][0] = {"k": {turn: [(turn, {turn})] * 3}, "lock": lock if turn % 4 == 0 else turn}
lock = threading.Lock()
ns = {"list": [], "dict": {}, "set": set(), "object": Plain(0), "nest": [0]}
ns["objects"] = np.empty(4, object)
def work():
    turn = 0
    while not stop.is_set():
        turn += 1
        try:
            change(turn)
        except RuntimeError:  # another thread changed it, too
            pass
stop = threading.Event()
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(40):
    save(ns)
stop.set()
for thread in threads: thread.join()
sys.setswitchinterval(0.005)
change(1)
save(ns)
other = {}
Names(session).bind(other)
assert len(other["list"]) == 12 and other["object"].other is other["list"], other
assert other["nest"] == ns["nest"] and other["objects"][0] == [1], other
"""
    )


def test_the_type_of_an_array_resizes_it():
    run(
        """
class Shrinks:
    def __reduce__(self):
        array.resize(8, refcheck=False)
        return str, ()
size = 1 << 22
array = np.zeros(size, dtype=np.dtype("f8", metadata={"own": Shrinks()}))
array[:8] = range(8)
assert "a" in save({"a": array})["saved"]
other = {}
Names(session).bind(other)
assert other["a"].tolist() == list(range(8)), other["a"].shape
"""
    )


def test_what_is_encoded_begins_no_other_save_or_bind():
    run(
        """
class Begins:
    def __init__(self, what): self.what = what
    def __reduce__(self):
        try:
            self.what()
        except RuntimeError as error:
            refused.append(str(error))
        return list, ()
refused = []
saves = lambda: names.save({"other": 2})
binds = lambda: names.bind({})
adopts = lambda: names.adopt({})
ns = {"a": [1], "b": Begins(saves), "c": Begins(binds), "d": Begins(adopts), "e": {"k": 1}}
assert save(ns)["saved"] == list("abcde")
assert refused == ["a save or a bind is going on"] * 3
found = {}
Names(session).bind(found)
assert found == {"a": [1], "b": [], "c": [], "d": [], "e": {"k": 1}}
"""
    )
