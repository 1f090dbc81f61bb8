"""Random notebooks: a few cells that change shared state in random ways, and print what they see.

The kinds of state are independent of each other; each has a first line, lines that change it and
one that prints it, all of which work in any order. So there is no model of what is right: only
that every way of running the cells prints the same.
"""

from __future__ import annotations

import dataclasses
import random

from .notebooks import Cell, Notebook


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of state."""

    first: str
    changes: tuple[str, ...]
    look: str


def _kind(first: str, changes: str, look: str) -> Kind:
    return Kind(first, tuple(change.strip() for change in changes.split(" | ")), look)


# N is replaced by a number.
KINDS = (
    _kind(
        "a = [1]; b = a; c = {'a': a}",
        "a.append(N) | b = list(a) | c['a'] = b | a = c['a'] | globals()['a'].append(N) | c['c'] = c"
        " | vars()['b'] = a | getattr(__import__('sys').modules['__main__'], 'a').append(N)"
        " | del b; b = a | a, b = b, a | exec('a.append(N)')",
        "print(a, b, a is b, a is c['a'], sorted(c))",
    ),
    _kind(
        "import numpy as np; m = np.zeros(6000); h = m[3000:]",
        "h[0] = N | m[N] = N | h = m[::2] | m = m.copy() | m += N | h *= 2 | np.add(h, 1, out=h)"
        " | m = np.zeros(6000); h = m[3000:] | __import__('ctypes').memset(m.ctypes.data, 0, 80)",
        "print(m.sum(), h.sum(), np.shares_memory(m, h), m[N])",
    ),
    _kind(
        "import collections\nclass T:\n    made = []\n    def __init__(self, v): self.v = v; T.made.append(self)\n"
        "t = T(0); u = t",
        "t = T(N) | u.v = N | T.extra = N | t.made.append(u) | u.me = u | T.made[0].v = [t.v] | u = T.made[-1]"
        " | t.__dict__['w'] = N | T.get = lambda self: self.v",
        "print(len(T.made), t is u, sorted(vars(u)), T.made[0] is t, getattr(T, 'extra', None), hasattr(t, 'get'))",
    ),
    _kind(
        "def make():\n    n = 0\n    def up(k=1):\n        nonlocal n\n        n += k\n        return n\n    return up\n"
        "up = make(); also = up",
        "up() | also(N) | up = make() | also = up | up.mark = N | up.__defaults__ = (N,)",
        "print(up(), also(0), up is also, getattr(also, 'mark', None))",
    ),
    _kind(
        "import random, decimal, warnings, os, sys\nrandom.seed(1); given = len(sys.argv)",
        "random.seed(N) | random.random() | decimal.getcontext().prec = N + 1 | os.environ['ORACLE'] = 'N'"
        " | sys.oracle = N | sys.setrecursionlimit(2000 + N) | warnings.filterwarnings('ignore', message='N')"
        " | decimal.getcontext().rounding = decimal.ROUND_DOWN | sys.argv.append('N')",
        "print(decimal.Decimal(2) / 3, os.environ.get('ORACLE'), getattr(sys, 'oracle', 0),"
        " sys.getrecursionlimit(), len(sys.argv) - given, random.getstate()[1][:2], len(warnings.filters))",
    ),
    _kind(
        "g = iter(range(1000)); f = open('file', 'w+'); log = []",
        "log.append(next(g)) | _w = f.write('N') | _s = f.seek(0) | g = iter(log) | log.append(N)"
        " | f.flush() | _p = f.seek(0, 2)",
        "print(log, f.tell(), next(g, 'end'))",
    ),
    _kind(
        "import logging, json, functools\nlg = logging.getLogger('oracle'); lg.setLevel(20)\n"
        "@functools.lru_cache\ndef sq(x): return [x]",
        "lg.setLevel(N) | lg.addHandler(logging.NullHandler()) | json.flag = N | setattr(json, 'flagN', N)"
        " | sq(N).append(N) | sq.cache_clear() | lg.disabled = True | lg.addFilter(lambda r: True) | vars(json)['flag'] = -N",
        "print(lg.level, len(lg.handlers), getattr(json, 'flag', None), sq(1), sq.cache_info().currsize,"
        " lg.disabled, len(lg.filters), sorted(k for k in vars(json) if k.startswith('flag')))",
    ),
    _kind(
        "import pandas as pd; d = pd.DataFrame({'x': range(40), 'y': ['p', 'q'] * 20}); v = d['x']",
        "d.loc[N, 'x'] = -N | d['z'] = N | v = d['x'] | d = d.copy() | v.iloc[N] = 99 | pd.options.display.precision = N + 1"
        " | d.attrs['k'] = N | d.index.name = 'iN'",
        "print(d['x'].sum(), v.sum(), list(d), d.attrs, d.index.name, pd.options.display.precision)",
    ),
)


def _with_number(text: str, dice: random.Random) -> str:
    """N where it stands by itself or between digits or quotes is a number from 0 to 9."""
    number = str(dice.randrange(1, 9))
    out = ""
    for place, letter in enumerate(text):
        before = text[place - 1] if place else " "
        after = text[place + 1 : place + 2]
        is_word = (before.isupper() or before == "_") or (after.isalpha() or after == "_")
        out += number if letter == "N" and not is_word else letter
    return out


def notebook(seed: int, cells: int = 6) -> Notebook:
    """The random notebook of this number. An error in a change is printed, and is no end."""
    dice = random.Random(seed)
    kinds = dice.sample(KINDS, 3)
    made = [Cell("\n".join(kind.first for kind in kinds))]
    for _ in range(cells):
        lines = []
        for _ in range(dice.randrange(1, 4)):
            change = _with_number(dice.choice(dice.choice(kinds).changes), dice)
            lines.append(f"try: {change}\nexcept Exception as error: print(repr(error))")
        if dice.random() < 0.5:
            lines.append(_with_number(dice.choice(kinds).look, dice))
        made.append(Cell("\n".join(lines)))
    made.append(Cell("\n".join(_with_number(kind.look, dice) for kind in kinds)))
    return Notebook(f"invention_{seed}", tuple(made), frozenset({"addresses"}))
