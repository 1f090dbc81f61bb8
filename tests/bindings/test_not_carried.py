"""What isn't carried is refused with a reason, and never carried as something else (docs/not-carried.md)."""

import re

import pytest

ITERATORS = (
    *(f"iter(d{one})" for one in ("", ".values()", ".items()")),
    *(f"reversed(d{one})" for one in ("", ".values()", ".items()")),
    "iter({5, 6})",
    "iter(__import__('collections').OrderedDict(a=1))",
)
CASES = [
    (
        "class Node: pass\nbad = None\nfor _ in range(30_000):\n    after, bad = bad, Node()\n    bad.after = after",
        "deep",
    ),
    (
        "class Labelled(property): pass\nclass bad: x = Labelled(lambda self: 1)",
        "Labelled at bad.x",
    ),
    *((f"d = {{1: 2}}; bad = {one}", "object of this process") for one in ITERATORS),
    ("import itertools\nbad = itertools.groupby('aab'); next(bad)", "its current group"),
    ("import itertools\nbad = next(itertools.groupby('aab'))[1]", "belongs to another"),
    ("import functools\nbad = functools.cmp_to_key(lambda a, b: 0)", "cannot pickle"),
    ("bad = vars(type('C', (), {'x': 1}))", "changes of the class"),
    ("import gzip\nbad = gzip.open('/dev/null')", "decompressed"),
    ("import bz2\nbad = bz2.open('/dev/null')", "decompressed"),
    ("import lzma\nbad = lzma.open('/dev/null')", "decompressed"),
    ("import tempfile\nbad = tempfile.NamedTemporaryFile()", "deletes its file"),
    ("import struct\nbad = struct.Struct('<i')", "cannot pickle"),
    ("import random\nbad = random.SystemRandom()", "System entropy source"),
    ("import argparse\nbad = argparse.ArgumentParser()", "by identity"),
    ("import contextvars\nbad = contextvars.ContextVar('c')", "cannot pickle"),
    ("import queue\nbad = queue.Queue()", "cannot pickle"),
    ("import queue\nbad = queue.SimpleQueue()", "cannot pickle"),
    ("import concurrent.futures\nbad = concurrent.futures.Future()", "cannot pickle"),
    ("from unittest import mock\nbad = mock.patch('os.sep', '!')", "in this process"),
    ("from unittest import mock\nbad = mock.patch.dict('os.environ', {})", "in this process"),
    (
        "import ctypes\nclass P(ctypes.Structure): _fields_ = [('x', ctypes.c_int)]\nbad = P(1)",
        "in memory",
    ),
    ("import ctypes\nbad = (ctypes.c_int * 3)(1, 2, 3)", "in memory"),
    ("import ctypes\nbad = ctypes.pointer(ctypes.c_int(3))", "pointer"),
    (
        "traitlets = need('traitlets')\nclass A(traitlets.HasTraits): x = traitlets.Int(0)\n"
        "bad = A(); bad.observe(print, 'x')",
        "observed or linked",
    ),
    (
        "param = need('param')\nclass A(param.Parameterized): x, y = param.Integer(1), param.Integer(2)\n"
        "bad = A(); bad.param.watch(print, ['x', 'y'])",
        "a watcher of several",
    ),
    (
        "bad = need('plotly.graph_objects').Figure()\n"
        "bad.layout.on_change(lambda layout, limits: None, 'xaxis.range')",
        "on_change",
    ),
    ("bad = need('rich.console').Console()", "cannot pickle"),
    ("wrapt = need('wrapt')\nbad = wrapt.ObjectProxy([1])", ""),
    ("torch = need('torch')\nbad = torch.jit.script(torch.nn.Linear(1, 1))", ""),
    (
        "torch = need('torch')\nbad = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(1, 1))",
        "state_dict",
    ),
    ("bad = need('sympy').ring('x', 'ZZ')", ""),
    (
        "import tempfile\nnp, file = need('numpy'), tempfile.mkstemp()[1]\n"
        "np.arange(9.).tofile(file); bad = np.memmap(file, mode='c')",
        "pages of its own",
    ),
]


@pytest.mark.parametrize(("source", "reason"), CASES)
def test_is_named(main, source, reason):
    main.ns["need"] = pytest.importorskip
    main.execute(source)
    report = main.commit()
    assert "bad" in report["unserializable"]
    assert re.search(reason, report["unserializable"]["bad"]), report["unserializable"]["bad"]
