"""Random notebooks of random statements over a few names, which share objects and memory.

Most cells don't look at the variables: what Holdfast believes to be untouched is only found out at the
end. The look prints value, exact type, and what is one object or one memory (support/digest.py).
"""

from __future__ import annotations

import random
from pathlib import Path

from .notebooks import Cell, Notebook

NAMES = "a b c d e f".split()
LOOK = f"for shown in digest.parts(globals(), {[*NAMES, 'Thing', 'log', 'memo']}): print(*shown)"
FIRST = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"

OBJECTS = """
import digest, functools, numpy as np, pandas as pd
log = []
class Link:
    def __init__(self, after, value): self.after, self.value = after, value
def links(count, value):
    last = None
    for _ in range(count): last = Link(last, value)
    return last
@functools.lru_cache(maxsize=2)
def memo(x, *, y=0): log.append("called"); return [x, y]
class Thing:
    def __init__(self, value): self.value = value
    def grow(self): self.value = [self.value, self.value]; return self
def make(x):
    count = 0
    def inner(y=1):
        nonlocal count
        count += y
        if hasattr(x, "append"): x.append(count)
        return count
    return inner
def fill(x): x[:] = x[::-1]
def bump(): a.append(len(a)); b["bump"] = len(b)
def rebind():
    global c
    c = [a, 1]
a, b, c = [1, 2], {'k': [3]}, np.arange(20000.0)
d, e, f = c[5:], Thing(a), [b, c]
"""
# N and M stand for two of the names.
VALUES = """
[1, 2, 3] | {'k': [1], 'l': 2.5} | (1, [2], 'x') | {3, 1, 2} | 'text' | 1.5 | None | 1 << 70
np.arange(20000.0) | np.arange(6).reshape(2, 3) | np.zeros((200, 100)).T | bytearray(b'abc' * 9000)
np.zeros(4000, dtype=[('x', 'f8'), ('y', 'i4')]) | np.arange(9)[::-2] | np.array(3.0)
[float(i) for i in range(20000)] | {str(i): i for i in range(20000)} | [[i] for i in range(300)]
pd.DataFrame({'u': np.arange(3000.0), 'v': ['s', 't'] * 1500}) | Thing(1) | Thing([]) | [] | {}
N | [N, M] | {'k': N, 'm': M} | (N, M) | N[1:] | N[::-1] | N['k'] | N['u'].to_numpy() | N.T | list(N)
Thing(N) | N.value | make(N) | lambda: N | N.copy() | N.reshape(-1) | type(N) | N['x'] | frozenset(N)
links(3, N) | links(90, 4) | N.after
np.arange(4000, dtype='q') | np.arange(5, dtype='g') | open(digest.__file__) | open(digest.__file__, 'rb')
memo(3) | memo(4, y='k') | memo(N) | memo | N.readline() | np.frombuffer(N, 'u1') | N.x
"""
EDITS = """
N[0] = 7 | N[1:3] = N[2:4] | N[-1] = M | N['k'] = M | N['w'] = 1.0 | N += 1 | N += [9] | N *= 2
N.append(M) | N.extend(list(M)[:3]) | N.sort() | N.reverse() | N.update(k=M) | N.add(5) | N.pop() | N.clear()
del N | del N[0] | del N['k'] | N.value = M | N.grow() | N() | N(2) | bump() | rebind() | fill(N)
N, M = M, N | N = M = [0] | N.fill(3) | N[N > 2] = 0 | np.add(N, 1, out=N) | N.iloc[0, 0] = 5.0
N.loc[0, 'v'] = 'zz' | N[()] = 1 | N['x'] = 4 | N.flags.writeable = False | M.attribute = N
for N in range(3): log.append(N) | globals()['N'] = M | exec('N = [5]') | log.append(len(M))
exec('M.append(1)') | N = [x for x in M] | (N := 4) | setattr(M, 'value', N) | vars(M)['value'] = 2
Thing.extra = N | Thing = type('Thing', (Thing,), {'more': 1}) | N = log | log = list(log)
N[2] += 1 | N[0].append(4) | N['k'].append(5) | N.value[0] = 3 | N[0], N[1] = N[1], N[0]
N.after.value = M | N.after = None | N.after = N | N.x = 9 | N.k = 0.5 | memo(3).append(N) | memo.mark = N
memo(5, y='l') | memo.cache_clear() | memo(M, y=N) | log.append(N.readline()) | N.seek(40) | next(N) | N.close()
"""

TENSORS = """
import digest, numpy as np, pandas as pd, pyarrow as pa, torch
from scipy import sparse
log, Thing = [], None
a, b = torch.arange(9000.0), torch.zeros(70, 80)
c, d = b.view(-1), torch.from_numpy(np.arange(7000.0))
e, f = d.numpy(), [a, c]
"""
TENSOR_VALUES = """
torch.arange(6000.0) | torch.zeros(80, 90) | torch.ones(3, dtype=torch.int32) | N.view(-1) | N.T | N[1:]
N.clone() | torch.from_numpy(np.arange(5000.0)) | N.numpy() | torch.nn.Parameter(torch.zeros(9000)) | N[::2]
torch.zeros(4, requires_grad=True) | [N, M] | {'k': N, 'm': M} | torch.tensor([1.5, 2, 3]) | N.double() | N.detach()
sparse.random(300, 300, 0.1, 'csr', random_state=1) | N.data | N.indices
np.ma.masked_array(np.arange(4000.0), np.arange(4000) % 2 == 0) | N.mask | np.arange(20000.0)
pa.array(range(5000)) | N.slice(5) | pd.Series(np.arange(5000.0)) | pd.DataFrame({'u': np.arange(3000.0)})
N['u'] | N.values | N.expand(2, -1) | N.reshape(-1) | (N, M) | N.grad | N.astype('f4') | N.copy()
"""
TENSOR_EDITS = """
N.add_(1) | N.fill_(2) | N[0] = 7 | N[1:3] = 5 | N.zero_() | N += 1 | N.mul_(2) | N[-1] = M[0] | N.copy_(M) | N.t_()
N.sum().backward() | del N | N, M = M, N | N.data = M.data | N.grad.zero_() | N['u'] = M
N.sort() | N.mask[2] = True | N.data[0] = 3 | N.iloc[3] = 1.5 | N['k'].add_(1) | N[0].fill_(1) | N['k'] = M
with torch.no_grad(): N.sub_(1) | torch.add(N, 1, out=N) | N.resize_(3).fill_(4) | np.add(N, 1, out=N) | N.eliminate_zeros()
"""


def _entries(text: str) -> list[str]:
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split(" | ")]


def _with_names(template: str, name: str, other: str) -> str:
    """`name` for N and `other` for M, where these stand by themselves."""
    words, word = [], ""
    for letter in template + "\0":
        if letter.isidentifier() or (word and letter.isalnum()):
            word += letter
            continue
        words.append({"N": name, "M": other}.get(word, word) + letter)
        word = ""
    return "".join(words)[:-1]


def _statement(dice: random.Random, values: list[str], edits: list[str]) -> str:
    name, other = dice.choice(NAMES), dice.choice(NAMES)
    if dice.random() < 0.5:
        code = f"{name} = " + _with_names(dice.choice(values), other, name)
    else:
        code = _with_names(dice.choice(edits), name, other)
    return f"try:\n    {code}\nexcept Exception as error: log.append(type(error).__name__)"


def _notebook(
    name: str, setup: str, values: str, edits: str, seed: int, needs: tuple[str, ...]
) -> Notebook:
    dice = random.Random(seed)
    cells = [Cell(FIRST + setup.strip(), plain=True)]
    for _ in range(dice.randrange(2, 9)):
        count = dice.randrange(1, 4)
        code = [_statement(dice, _entries(values), _entries(edits)) for _ in range(count)]
        cells.append(Cell("\n".join(code)))
        if dice.random() < 0.25:
            cells.append(Cell(LOOK, plain=True))
    cells.append(Cell(LOOK, plain=True))
    return Notebook(f"{name}_{seed}", tuple(cells), frozenset(), needs)


def objects(seed: int) -> Notebook:
    """The random notebook of this number over values of Python, NumPy and pandas."""
    return _notebook("random_objects", OBJECTS, VALUES, EDITS, seed, ("numpy", "pandas"))


def tensors(seed: int) -> Notebook:
    """The same over tensors and other libraries' arrays, which share memory."""
    needs = ("torch", "scipy", "pyarrow", "pandas")
    return _notebook("random_tensors", TENSORS, TENSOR_VALUES, TENSOR_EDITS, seed, needs)
