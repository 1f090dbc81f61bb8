"""What functools.lru_cache remembers, through the store."""

import functools
import gc
import itertools
import sys
import threading

import pytest
from store_process import hand_over

from holdfast.carry import cached_functions

SETUP = """
import functools, threading
calls = []
@functools.lru_cache(maxsize=3)
def bounded(x, *more, key=1, **named): calls.append(x); return [x, *more]
@functools.cache
def fib(n): calls.append(n); return n if n < 2 else fib(n - 1) + fib(n - 2)
@functools.lru_cache(maxsize=None, typed=True)
def typed(x, y=0, *, z=0): calls.append((x, y, z)); return type(x).__name__
@functools.lru_cache(maxsize=0)
def nothing(x): calls.append(x); return x
value = None
"""


@pytest.mark.parametrize("turns", [1, 2])
def test_what_was_called_is_not_called_again(main, turns):
    main.execute(
        SETUP + "fib(20); bounded('a'); bounded((1, 2)); bounded(1, 2, b=3, a=4); bounded('a')\n"
        "bounded((1, 2), key=2); typed(1); typed(1.0); typed(1, True, z=2); typed(1, 1, z=2.0)\n"
        "typed(x=1); nothing(3); calls.clear()"
    )
    assert not main.commit()["unserializable"]
    look = "[f.cache_info() for f in (bounded, fib, typed, nothing)]"
    before = eval(look, main.ns)
    for _ in range(turns):
        hand_over(main, f"value = {look}\nfib.mark = 1; bounded.mark = 2; typed.mark = 3")
        assert main.ns["value"] == before == eval(look, main.ns)
    again = (
        "kept = bounded('a'); fib(20); bounded((1, 2), key=2); bounded(1, 2, b=3, a=4)\n"
        "typed(1); typed(1.0); typed(1, True, z=2); typed(1, 1, z=2.0); typed(x=1)\n"
        "before = list(calls); bounded(7); bounded('a'); nothing(3)\n"
        "bounded(1, 2, b=3, a=4); bounded((1, 2), key=2)\n"  # the least recently used had to go
    )
    hand_over(main, again + "value = before, list(calls)")
    assert main.ns["value"] == ([], [7, "a", 3, (1, 2)])


def test_results_are_what_they_are_elsewhere(main):
    main.execute(
        SETUP + "import numpy as np\nclass Point:\n    def __init__(self, x): self.x = x\n"
        "    @functools.lru_cache\n    def far(self, y): return [self, y]\n"
        "@functools.cache\ndef table(point): return np.arange(9000.0)\n"
        "point = Point(1); array = table(point); pair = point.far(2)"
    )
    assert not main.commit()["unserializable"]
    hand_over(
        main,
        "value = table(point) is array, point.far(2) is pair, pair[0] is point\n"
        "array[0] = 5; point.x = 4",
    )
    ns = main.ns
    assert ns["value"] == (True, True, True)
    assert ns["table"](ns["point"]) is ns["array"] and ns["array"][0] == 5
    assert ns["point"].far(2) is ns["pair"] and ns["pair"][0].x == 4


OWN_HASHES = {
    "frozen": "@dataclasses.dataclass(frozen=True)\nclass P:\n    n: int\n",
    "own": "class P:\n    def __init__(self, n): self.n = n\n"
    "    def __eq__(self, other): return self.n == other.n\n"
    "    def __hash__(self): return hash(self.n)\n",
    "identity": "class P:\n    def __init__(self, n): self.n = n\n"
    "    def __hash__(self): return id(self)\n",
}


@pytest.mark.parametrize("kind", OWN_HASHES)
def test_a_method_whose_class_has_a_hash_of_its_own(main, kind):
    main.execute(
        "import dataclasses, functools\ncalls = []\n" + OWN_HASHES[kind] + "    @functools.cache\n"
        "    def area(self): calls.append(self.n); return [self.n ** 2]\n"
        "p = P(3); area = p.area(); value = None"
    )
    assert not main.commit()["unserializable"]
    hand_over(main, "value = p.area() is area, list(calls); P(4).area()")
    assert main.ns["value"] == (True, [3])
    assert main.ns["p"].area() is main.ns["area"] and main.ns["calls"] == [3, 4]


def test_a_key_that_has_the_function(main):
    main.execute(
        "import functools\ncalls = []\n" + OWN_HASHES["own"] + "p = P(3)\n"
        "@functools.lru_cache(maxsize=2)\ndef area(p): calls.append(p.n); return p.n ** 2\n"
        "p.area, value = area, p.n; del area; p.area(p)"
    )
    assert not main.commit()["unserializable"]
    hand_over(main, "value = p.area(p), p.area(P(3)), p.area.cache_info()[:2]")
    assert main.ns["value"] == (9, 9, (2, 1)) and main.ns["calls"] == [3]


def test_a_function_within_itself(main):
    main.execute(
        "import functools\ndef make():\n    @functools.cache\n"
        "    def inner(n): return n if n < 2 else inner(n - 1) + inner(n - 2)\n    return inner\n"
        "inner = make(); inner(10); value = None"
    )
    assert not main.commit()["unserializable"]
    hand_over(main, "value = inner.cache_info().currsize, inner(10), inner.cache_info().misses")
    assert main.ns["value"] == (11, 55, 11)


def test_what_cannot_be_carried_costs_what_is_remembered_only(main):
    main.execute(
        SETUP + "@functools.cache\ndef lock(name): return threading.Lock()\n"
        "kept = lock('a')\nother = lock('b'); fib(5)\ndel kept, other"
    )
    assert not main.commit()["unserializable"]
    hand_over(main, "value = lock.cache_info().currsize, fib.cache_info().currsize")
    assert main.ns["value"] == (0, 6) and main.ns["lock"].cache_info().currsize == 2


def test_caches_are_no_group_and_need_no_second_look(main):
    main.execute(SETUP + "bounded(1, key=2); typed(1, z=3)")
    main.commit()
    main.execute("bounded(2, key=3)")
    assert set(main.commit()["saved"]) == {"bounded", "calls"}


def test_a_cache_that_shows_itself_otherwise_begins_empty(monkeypatch):
    @functools.cache
    def one(x):
        return x

    one(1)
    assert cached_functions._look_into(one).keys == [1]
    shown = gc.get_referents(one)
    for other in (
        shown[:2],
        [*shown, object()],
        [part for part in shown if type(part) is not dict],
    ):
        monkeypatch.setattr(gc, "get_referents", lambda _, other=other: other)
        assert cached_functions._look_into(one) is None


@pytest.mark.parametrize("bound", [None, 8])
def test_threads_that_call_the_function(bound):
    """Each key has its own result, whatever is added, dropped and cleared meanwhile."""

    @functools.lru_cache(maxsize=bound)
    def kept(number):
        return [number]

    def call():
        numbers = itertools.cycle(range(100))
        while not done.is_set():
            for number in itertools.islice(numbers, 7):
                kept(number)
            kept.cache_clear()

    done, interval = threading.Event(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=call) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(3000):
            cache = cached_functions._look_into(kept)
            if cache is not None:
                assert [[key] for key in cache.keys] == cache.results
    finally:
        sys.setswitchinterval(interval)
        done.set()
        for thread in threads:
            thread.join()


def test_calls_while_the_cache_is_filled(main):
    """The hash of an argument, or another thread, calls the function that is made again."""
    main.execute(
        SETUP + "class Key:\n    def __init__(self, n, f): self.n, self.f = n, f\n"
        "    def __eq__(self, other): return self is other\n"
        "    def __hash__(self): return hash(self.f(self.n)[0])\n"
        "@functools.lru_cache(maxsize=8)\n"
        "def looked(x): return [x if type(x) is int else x.n * 100]\n"
        "z = Key(5, looked); looked(z); looked(5)"  # 5 is the last now
    )
    assert not main.commit()["unserializable"]
    hand_over(main, "value = looked(5), looked(z), looked.cache_info().currsize")
    assert main.ns["value"] == ([5], [500], 2)
