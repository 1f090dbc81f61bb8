"""A trace of two processes with two threads each, made by hand, as data of a page.

Process A: main calls fit (twice load, then wait), a helper waits. Process B: run calls load, and its
helper calls both. Times are in hundredths of a second; every sum in the tests follows from here.
"""

from collections import Counter

CS = 10**7  # ns
BEGIN = 7 * 10**9
NAMES = [
    "cell In[1]",
    "__main__.Model:__call__",
    "json.decoder:load",
    "threading.Condition:wait",
    "pool:run",
]
CELL, FIT, LOAD, WAIT, RUN = range(len(NAMES))
REGIONS = {
    "name": NAMES,
    "file": [
        "In[1]",
        "In[1]",
        "/lib/json/decoder.py",
        "/lib/threading.py",
        "/lib/pool/__init__.py",
    ],
    "line": [1, 2, 30, 40, 50],
    "cell": [1, 1, 0, 0, 0],
    "waits": [False, False, False, True, False],
}
# Of each thread its calls: (region, begin, end, depth), in order.
THREADS = {
    ("A", "MainThread"): [
        (CELL, 0, 200, 0),
        (FIT, 10, 110, 1),
        (LOAD, 20, 40, 2),
        (LOAD, 50, 90, 2),
        (WAIT, 120, 180, 1),
    ],
    ("A", "helper"): [(WAIT, 0, 150, 0)],
    ("B", "MainThread"): [(RUN, 50, 150, 0), (LOAD, 60, 140, 1)],
    ("B", "helper"): [(LOAD, 100, 120, 0), (FIT, 120, 160, 0), (LOAD, 130, 150, 1)],
}


def _paths(calls):
    """Visits and inclusive times by path, a tuple of regions."""
    found, visits, open_ = Counter(), Counter(), []
    for region, begin, end, depth in calls:
        del open_[depth:]
        open_.append(region)
        found[tuple(open_)] += (end - begin) * CS
        visits[tuple(open_)] += 1
    return found, visits


def _preorder(times, path=()):
    children = [one for one in times if len(one) == len(path) + 1 and one[: len(path)] == path]
    for child in sorted(children, key=lambda one: -times[one]):
        yield child
        yield from _preorder(times, child)


def _table(threads):
    rows = {}
    for calls in threads.values():
        times, visits = _paths(calls)
        for path, time in times.items():
            row = rows.setdefault(path[-1], [0, 0, 0])
            inner = sum(times[one] for one in times if one[:-1] == path)
            row[0] += visits[path]
            row[1] += time
            row[2] += time - inner
    regions = sorted(rows)
    columns = {
        name: [rows[region][at] for region in regions]
        for at, name in enumerate(("visits", "inclusive", "exclusive"))
    }
    return {"region": regions, **columns}


def data(threads=THREADS):
    """The data of a page."""
    times, visits = Counter(), Counter()
    for calls in threads.values():
        for total, more in zip((times, visits), _paths(calls), strict=True):
            total.update(more)
    order = list(_preorder(times))
    locations = []
    for number, ((process, thread), calls) in enumerate(threads.items()):
        mine, seen = _paths(calls)
        known = [at for at, path in enumerate(order) if path in mine]
        locations.append(
            {
                "process": process,
                "thread": thread,
                "id": number,
                "calls": len(calls),
                "begin": [BEGIN + begin * CS for _, begin, _, _ in calls],
                "duration": [(end - begin) * CS for _, begin, end, _ in calls],
                "depth": [depth for *_, depth in calls],
                "region": [region for region, *_ in calls],
                "costs": {
                    "path": known,
                    "visits": [seen[order[at]] for at in known],
                    "inclusive": [mine[order[at]] for at in known],
                },
            }
        )
    return {
        "title": "two processes",
        "begin": BEGIN,
        "end": BEGIN + 200 * CS,
        "cells": [
            {"index": 1, "begin": BEGIN, "end": BEGIN + 200 * CS, "source": "class Model: pass"}
        ],
        "regions": {**REGIONS, "name": list(NAMES)},  # a test may name one otherwise
        "locations": locations,
        "paths": [
            {
                "name": "all threads",
                "depth": [len(path) - 1 for path in order],
                "region": [path[-1] for path in order],
                "visits": [visits[path] for path in order],
                "inclusive": [times[path] for path in order],
            }
        ],
        "table": _table(threads),
    }


def many(count, threads=1):
    """Ranks of so many threads each, which compute in turn."""
    made = {}
    for rank in range(count):
        for thread in range(threads):
            calls = [(CELL, 0, 200, 0)]
            calls += [(LOAD, at, at + 10, 1) for at in range(rank % 20, 190, 20)]
            made[f"rank {rank}", f"thread {thread}"] = calls
    return data(made)
