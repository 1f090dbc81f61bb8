"""functools.lru_cache: a cached function of the notebook, and what it remembers.

The wrapper has no function that lists its cache, but it shows the content to the garbage collector. If the
cache has a bound, a key and a result of each link come first, the least recently used link before the others.
Then come the dict of the cache, the function, and a mark that separates positional from named arguments in
a key. So the calls that were made follow from the keys.

When the wrapper is made again, it is called with the arguments of each of these calls, and its function
returns the kept result. This happens after the whole pickle was read. A key may be an instance of the class
that has the cached function as a method, and the class has no `__hash__` before it is filled. The function
and the counts of hits and misses are words of the wrapper's memory. Their places are found once, in a
wrapper that has known ones.

If something isn't as described here, the cache begins empty. The same holds if a result or an argument can't
be carried: a connection among the results must not cost the function. `left_out` names those functions.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import operator
import types
import typing as t
import weakref

from holdfast.carry import patches
from holdfast.codecs import Codec, register

LEFT_OUT = "the results that cached functions keep are left out"  # notes of a pickler
CARRIED = "the results that cached functions keep are carried"
_MADE_ANEW = "__wrapped__", "cache_parameters"  # lru_cache sets these
_LINK = "_lru_list_elem"  # the name of a link's type
Cached = type(functools.lru_cache(lambda: None))
# Functions whose results weren't carried last.
_left_out: weakref.WeakSet[t.Any] = weakref.WeakSet()


def left_out() -> dict[str, t.Any]:
    """The functions whose results weren't carried when they were last pickled, by name."""
    return {_name_of(one): one for one in _left_out}


def _name_of(wrapper: t.Any) -> str:
    home = "" if wrapper.__module__ == "__main__" else f"{wrapper.__module__}."
    return home + wrapper.__qualname__


def _mark_of(referents: list[t.Any]) -> int | None:
    """The place of the mark: the last plain object()."""
    found = (i for i in range(len(referents) - 1, -1, -1) if type(referents[i]) is object)
    return next(found, None)


class _Cache(t.NamedTuple):
    function: t.Any
    mark: object
    keys: list[t.Any]
    results: list[t.Any]


def _look_into(wrapper: t.Any) -> _Cache | None:
    referents = gc.get_referents(wrapper)
    mark = _mark_of(referents)
    if mark is None or mark < 2 or type(referents[mark - 2]) is not dict:
        return None
    cache, function = referents[mark - 2 : mark]
    if wrapper.cache_parameters()["maxsize"] is None:
        try:
            kept = cache.copy()  # of one moment: other threads may call the function
        except RuntimeError:
            return None
        return _Cache(function, referents[mark], list(kept), list(kept.values()))
    links = referents[(mark - 2) % 3 : mark - 2]  # these are of one moment, too
    if any(getattr(one, "__name__", "") != _LINK for one in links[2::3]):
        return None
    return _Cache(function, referents[mark], links[::3], links[1::3])


def _call_of(key: t.Any, mark: object, typed: bool) -> tuple[tuple, tuple[str, ...]]:
    """The arguments in a key, and the names of those that were given by name."""
    if type(key) is not tuple:
        return (key,), ()
    place = next((i for i, one in enumerate(key) if one is mark), None)
    if place is None:
        return key[: len(key) // 2] if typed else key, ()
    rest = key[place + 1 :]
    pairs = rest[: 2 * (len(rest) - place) // 3] if typed else rest
    return key[:place] + pairs[1::2], pairs[::2]


class Results:
    """What a wrapper remembers of its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        # The names of the last arguments of a call, by its position in `calls`.
        self.names: dict[int, tuple[str, ...]] = {}
        self.results: list[t.Any] = []
        self.counts = 0, 0  # hits and misses

    def is_as(self, other: Results) -> bool:
        """Whether both refer to the same objects."""
        own, others = [self.results, *self.calls], [other.results, *other.calls]
        return (
            (self.counts, self.names) == (other.counts, other.names)
            and list(map(len, own)) == list(map(len, others))
            and all(all(map(operator.is_, *pair)) for pair in zip(own, others, strict=True))
        )

    def fill(self, wrapper: t.Any) -> None:
        """Put these results into a wrapper whose cache is empty."""
        _of[self] = wrapper
        if _places():
            _fill(wrapper, self.calls, self.names, self.results, self.counts)


def results_of(wrapper: t.Any) -> Results | None:
    """What a wrapper remembers. None if it was never called, or if its cache can't be read."""
    counts = wrapper.cache_info()[:2]
    cache = _look_into(wrapper) if any(counts) and _places() else None
    return None if cache is None else _results_in(cache, wrapper, counts)


def _results_in(cache: _Cache, wrapper: t.Any, counts: tuple[int, int]) -> Results:
    found, typed = Results(), wrapper.cache_parameters()["typed"]
    _of[found] = wrapper
    found.counts, found.results = counts, cache.results
    for position, key in enumerate(cache.keys):
        call, named = _call_of(key, cache.mark, typed)
        found.calls.append(call)
        if named:
            found.names[position] = named
    return found


_of: weakref.WeakKeyDictionary[Results, t.Any] = weakref.WeakKeyDictionary()  # the wrappers


class _OfOwnModule(Codec):
    """The results of a function in a module of the user's own (worker/settings/function_results.py)."""

    types = (f"{__name__}.Results",)

    def reduce(self, value, pickler):
        if LEFT_OUT in pickler.notes:
            _left_out.add(_of[value])
            return Results, ()
        _left_out.discard(_of[value])
        pickler.notes[CARRIED] = True
        return NotImplemented


class _Cached(Codec):
    types = ("functools._lru_cache_wrapper",)

    def reduce(self, value, pickler):
        if value.__module__ != "__main__" and not patches.replaces(value):
            return NotImplemented  # it is pickled by its name
        attributes = {key: item for key, item in vars(value).items() if key not in _MADE_ANEW}
        options, counts = value.cache_parameters(), value.cache_info()[:2]
        _left_out.discard(value)
        if LEFT_OUT in pickler.notes and any(counts):
            _left_out.add(value)
        cache = None if LEFT_OUT in pickler.notes or not any(counts) else _look_into(value)
        if cache is None or not _places():
            return _make_cached, (value.__wrapped__, options), attributes
        pickler.notes[CARRIED] = True
        found = _results_in(cache, value, counts)
        state = attributes, found.calls, found.names, found.results, counts, _Reader()
        return _make_cached, (cache.function, options), state, None, None, _fill_cached


register(_OfOwnModule())
register(_Cached())


# ---- what a pickle calls when it is read ----------------------------------------------------


def _make_cached(function, options):
    return functools.lru_cache(**options)(function)


class _Reader:
    """Calls `at_end` when the pickle was read to its end: the unpickler keeps all objects that it
    has made, so this one lives as long as the unpickler. Before that, only methods such as
    `__setstate__` of an object in the same pickle can call the cached function."""

    def __init__(self) -> None:
        self.at_end: t.Callable[[], object] | None = None

    def __reduce__(self):
        return _Reader, ()

    def __del__(self):
        if self.at_end is not None:
            self.at_end()


def _fill_cached(wrapper, state):
    attributes, *kept, reader = state
    vars(wrapper).update(attributes)
    if _places():
        reader.at_end = functools.partial(_fill, wrapper, *kept)


def _fill(wrapper, calls, names, results, counts):
    own = wrapper.__wrapped__
    known: tuple[tuple, t.Any] = (), None

    def give(*arguments, **named):
        """The kept result. The function's own result if another thread calls it meanwhile, or the
        hash of an argument does."""
        call, result = known
        given = *arguments, *named.values()
        if len(given) == len(call) and all(map(operator.is_, given, call)):
            return result
        return own(*arguments, **named)

    try:
        with _standing_in(wrapper, give):
            for position, known in enumerate(zip(calls, results)):
                call, named = known[0], names.get(position, ())
                first = len(call) - len(named)
                wrapper(*call[:first], **dict(zip(named, call[first:])))
    except Exception:  # the hash of an argument can't be computed yet
        wrapper.cache_clear()
        return
    words, (_, *places) = _words(wrapper), t.cast(tuple, _places())
    for place, count in zip(places, counts):
        words[place] = count


# ---- the wrapper's memory -------------------------------------------------------------------


def _words(wrapper: t.Any) -> t.Any:
    size = Cached.__basicsize__ // ctypes.sizeof(ctypes.c_ssize_t)
    return (ctypes.c_ssize_t * size).from_address(id(wrapper))


@functools.cache
def _places() -> tuple[int, int, int] | None:
    """The words that hold the function, the hits and the misses. None if they aren't found."""
    hits, misses = 577, 211

    def same(number):
        return number

    wrapper = functools.lru_cache(maxsize=None)(same)
    for number in itertools.chain(range(misses), itertools.repeat(0, hits)):
        wrapper(number)
    words, wanted = list(_words(wrapper)), (id(same), hits, misses)
    if any(words.count(one) != 1 for one in wanted):
        return None
    function, hit, missed = map(words.index, wanted)
    return function, hit, missed


@contextlib.contextmanager
def _standing_in(wrapper: t.Any, other: types.FunctionType) -> t.Iterator[None]:
    """Let the wrapper call another function for a moment."""
    words, place = _words(wrapper), t.cast(tuple, _places())[0]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(other))
    own, words[place] = words[place], id(other)
    try:
        yield
    finally:
        words[place] = own
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(other))
