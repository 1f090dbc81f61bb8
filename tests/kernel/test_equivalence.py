"""Random cells in a real kernel, on random run modes, leave what one long-lived interpreter has.

Each example is a notebook: cells of random statements over a few names, run in plain cells and
in both kinds of processes of their own. The same code runs in this process. After some cells, and
at the end, every variable is compared: value, exact type, what is one object or one memory.
The look at the variables is a cell that names them all, so most cells go without: what
Holdfast believes untouched is only found out at the end.
"""

from pathlib import Path

import digest
import effort
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

NAMES = "a b c d e f".split()
ALL = [*NAMES, "Thing", "log", "memo"]
HEADS = {
    "plain": "",
    "isolated": "%%isolated\n",
    "recorded, isolated": "%%execute_with_scorep --run=isolated\n",
    "recorded, in-process": "%%execute_with_scorep --run=in-process\n",
}

SETUP = """
import ctypes, functools, numpy as np, pandas as pd
import digest as source
from digest import digest
log = []
class Pair(ctypes.Structure): _fields_ = [("x", ctypes.c_int), ("k", ctypes.c_double)]
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
"""

VALUES = """
[1, 2, 3] | {'k': [1], 'l': 2.5} | (1, [2], 'x') | {3, 1, 2} | 'text' | 1.5 | None | 1 << 70
np.arange(20000.0) | np.arange(6).reshape(2, 3) | np.zeros((200, 100)).T | bytearray(b'abc' * 9000)
np.zeros(4000, dtype=[('x', 'f8'), ('y', 'i4')]) | np.arange(9)[::-2] | np.array(3.0)
[float(i) for i in range(20000)] | {str(i): i for i in range(20000)} | [[i] for i in range(300)]
pd.DataFrame({'u': np.arange(3000.0), 'v': ['s', 't'] * 1500}) | Thing(1) | Thing([]) | [] | {}
N | [N, M] | {'k': N, 'm': M} | (N, M) | N[1:] | N[::-1] | N['k'] | N['u'].to_numpy() | N.T | list(N)
Thing(N) | N.value | make(N) | lambda: N | N.copy() | N.reshape(-1) | type(N) | N['x'] | frozenset(N)
links(3, N) | links(900, 4) | N.after | (ctypes.c_int * 5)(1, 2, 3) | (ctypes.c_double * 9000)(1.5) | Pair(2, 1.5)
np.arange(4000, dtype='q') | np.arange(5, dtype='g') | open(source.__file__) | open(source.__file__, 'rb')
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


def table(text):
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split(" | ")]


def with_names(template, name, other):
    """N and M of a fork server are names; letters inside of words stay."""
    out, word = [], ""
    for letter in template + "\0":
        if letter.isidentifier() or (word and letter.isalnum()):
            word += letter
            continue
        out.append({"N": name, "M": other}.get(word, word) + letter)
        word = ""
    return "".join(out)[:-1]


def notebooks(values, edits):
    """Cells over the names: head, code, and whether to look at the variables after it."""

    @st.composite
    def statement(draw):
        name, other = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
        if draw(st.booleans()):
            code = f"{name} = " + with_names(draw(st.sampled_from(table(values))), other, name)
        else:
            code = with_names(draw(st.sampled_from(table(edits))), name, other)
        return f"try:\n    {code}\nexcept Exception as error: log.append(type(error).__name__)\n"

    code = st.lists(statement(), min_size=1, max_size=3).map("".join)
    looks = st.integers(0, 3).map(lambda number: number == 0)
    return st.lists(st.tuples(st.sampled_from(sorted(HEADS)), code, looks), min_size=2, max_size=8)


# Something to work with, before the first edit.
FIRST = "".join(
    f"{name} = {value}\n"
    for name, value in zip(
        NAMES,
        ["[1, 2]", "{'k': [3]}", "np.arange(20000.0)", "c[5:]", "Thing(a)", "[b, c]"],
        strict=True,
    )
)


class Reference:
    """One interpreter that runs the same cells."""

    def __init__(self):
        import sys
        import types

        # A true __main__ would be this test's own.
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.sys = sys

    def run(self, code):
        own = self.sys.modules["__main__"]
        self.sys.modules["__main__"] = self.module
        try:
            exec(code, self.names)
        finally:
            self.sys.modules["__main__"] = own

    def look(self):
        return digest.digest(self.names, ALL)


def look(kernel):
    outcome = kernel.run(f"print(digest(globals(), {ALL!r}))")
    assert outcome.status == "ok", outcome.content
    return outcome.stream().strip()


@pytest.fixture
def equal_kernel(start_kernel):
    support = str(Path(__file__).parents[1] / "support")
    return start_kernel(env={"PYTHONPATH": support, "PYTHONHASHSEED": "0", "HOLDFAST_VERIFY": "1"})


def check(kernel, setup, notebook):
    """Run the notebook here and there, and compare."""
    reference = Reference()
    kernel.run("%reset -f")
    for code in setup:
        assert kernel.run(code).status == "ok"
        reference.run(code)
    for step, (head, code, looks) in enumerate(notebook):
        outcome = kernel.run(HEADS[head] + code)
        assert outcome.status == "ok", (step, code, outcome.content)
        assert "not carried" not in outcome.stream("stderr"), outcome.stream("stderr")
        reference.run(code)
        if looks or step == len(notebook) - 1:
            assert look(kernel) == reference.look(), (step, head, code)


examples = settings(
    max_examples=effort.examples(8),
    deadline=None,
    phases=[Phase.generate],  # an example takes a second: the first that fails is shown
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@given(notebook=notebooks(VALUES, EDITS))
@examples
def test_random_notebooks_leave_what_one_interpreter_has(equal_kernel, notebook):
    check(equal_kernel, [SETUP, FIRST], notebook)


TENSORS = """
torch.arange(6000.0) | torch.zeros(80, 90) | torch.ones(3, dtype=torch.int32) | N.view(-1) | N.T | N[1:]
N.clone() | torch.from_numpy(np.arange(5000.0)) | N.numpy() | torch.nn.Parameter(torch.zeros(9000)) | N[::2]
torch.zeros(4, requires_grad=True) | [N, M] | {'k': N, 'm': M} | torch.tensor([1.5, 2, 3]) | N.double() | N.detach()
sparse.random(300, 300, 0.1, 'csr', random_state=1) | N.data | N.indices | np.ma.masked_array(np.arange(4000.0), np.arange(4000) % 2 == 0)
N.mask | np.arange(20000.0) | pa.array(range(5000)) | N.slice(5) | pd.Series(np.arange(5000.0)) | pd.DataFrame({'u': np.arange(3000.0)})
N['u'] | N.values | N.expand(2, -1) | N.reshape(-1) | (N, M) | N.grad | N.astype('f4') | N.copy()
"""
TENSOR_EDITS = """
N.add_(1) | N.fill_(2) | N[0] = 7 | N[1:3] = 5 | N.zero_() | N += 1 | N.mul_(2) | N[-1] = M[0] | N.copy_(M) | N.t_()
N.sum().backward() | del N | N, M = M, N | N.data = M.data | N.grad.zero_() | N['u'] = M
N.sort() | N.mask[2] = True | N.data[0] = 3 | N.iloc[3] = 1.5 | N['k'].add_(1) | N[0].fill_(1) | N['k'] = M
with torch.no_grad(): N.sub_(1) | torch.add(N, 1, out=N) | N.resize_(3).fill_(4) | np.add(N, 1, out=N) | N.eliminate_zeros()
"""
TENSOR_SETUP = """
import numpy as np, pandas as pd, pyarrow as pa, torch
from scipy import sparse
from digest import digest
log, Thing = [], None
a, b = torch.arange(9000.0), torch.zeros(70, 80)
c, d = b.view(-1), torch.from_numpy(np.arange(7000.0))
e, f = d.numpy(), [a, c]
"""


@given(notebook=notebooks(TENSORS, TENSOR_EDITS))
@examples
def test_random_notebooks_of_other_libraries_arrays(equal_kernel, notebook):
    for library in ("torch", "scipy", "pyarrow"):
        pytest.importorskip(library)
    check(equal_kernel, [TENSOR_SETUP], notebook)
