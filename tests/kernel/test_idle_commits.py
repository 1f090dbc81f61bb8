"""A commit that no cell waits for: what it asks of libraries that nobody has changed, and what it finds if somebody has."""

import importlib.util

import pytest

DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
LIBRARIES = """
import collections, gc, logging, sys
import matplotlib.pyplot as plt, numpy as np, pandas as pd, scipy.fft
"""
if importlib.util.find_spec("sympy"):  # PyTorch brings it
    LIBRARIES += "import sympy\n"
# Calls of Python functions in the commits, by module and name; those with a cell are left out.
COUNT = """
def begin():
    from holdfast.worker.main_worker import MainWorker
    main = next(one for one in gc.get_objects() if type(one) is MainWorker)
    commit = main.op_commit
    def counted(frame):
        if "code" in frame:
            return commit(frame)
        calls = collections.Counter()
        def note(frame, event, argument):
            if event == "call":
                calls[frame.f_globals.get("__name__", "") + ":" + frame.f_code.co_name] += 1
        sys.setprofile(note)
        try:
            commit(frame)
        finally:
            sys.setprofile(None)
            counts.append(calls)
    main.op_commit = counted
counts = []
begin()
"""
CALLS = """
packages = "matplotlib numpy pandas scipy sympy".split()
of_libraries = sum(count for name, count in counts[-1].items() if name.replace(":", ".").split(".")[0] in packages)
read = {reader: counts[-1]["holdfast." + reader] for reader in READERS}
of_libraries, read
"""
READERS = {
    "libraries.matplotlib.parameters:_differing": 0,
    "libraries.standard.loggers:levels": 0,
    "libraries.matplotlib.pyplot:colour_maps": 0,
    "worker.settings.thread_locals:_read_spaces": 0,
    "worker.settings.registry_contents:_read": 2,  # properties: mpmath's contexts
    "worker.settings.differences:_look": 2,  # sys and builtins, in which IPython puts things for each cell
}
# SciPy's thread-local object, whose module has another name from SciPy 1.18 on.
WORKERS = "__import__('inspect').unwrap(scipy.fft.get_workers).__globals__['_config']"
# What sets something that had been looked at, the expression that shows it, and what that gives.
CHANGES = [
    ("vars(np)['mark'] = [1]", "np.mark[0]", "1"),
    ("np.mark.append(2)", "np.mark", "[1, 2]"),
    ("import json; json.gone = 5", "getattr(json, 'mark', json.__dict__.get('gone'))", "5"),
    ("vars(json).pop('gone'); json.mark = 5", "hasattr(json, 'gone') or json.mark", "5"),
    ("vars(pd)['get_dummies'] = f = lambda: 7", "pd.get_dummies()", "7"),
    ("setattr(pd.Series, 'mark', 6)", "pd.Series.mark", "6"),
    ("plt.rcParams['lines.linewidth'] = 7", "plt.rcParams['lines.linewidth']", "7.0"),
    ("plt.rcParams['font.serif'] = ['B']", "plt.rcParams['font.serif'][-1]", "'B'"),
    ("plt.rcParams['font.serif'].insert(0, 'A')", "plt.rcParams['font.serif'][0]", "'A'"),
    ("pd.options.display.max_rows = 7", "pd.options.display.max_rows", "7"),
    ("log = logging.getLogger('matplotlib'); log.setLevel(7)", "log.level", "7"),
    ("log.addHandler(logging.NullHandler())", "type(log.handlers[-1]).__name__", "'NullHandler'"),
    (
        "import matplotlib; matplotlib.colormaps.register(plt.get_cmap('hot'), name='mine')",
        "'mine' in matplotlib.colormaps",
        "True",
    ),
    ("matplotlib.style.library['mine'] = {}", "'mine' in matplotlib.style.library", "True"),
    (WORKERS + ".default_workers = 2", "scipy.fft.get_workers()", "2"),
    ("np.seterr(all='raise')['over']", "np.geterr()['over']", "'raise'"),
]


@pytest.mark.fresh
def test_of_libraries_that_nobody_has_changed(kernel):
    kernel.run(LIBRARIES)
    kernel.settle()
    assert kernel.run(COUNT).status == "ok"
    for turn in range(3):
        kernel.run(f"a = {turn}")
        kernel.settle()
    assert int(kernel.run("len(counts)").result) >= 3
    calls, read = eval(kernel.run(f"READERS = {list(READERS)}\n{CALLS}").result)
    assert calls <= 10
    assert {name: count for name, count in read.items() if count > READERS[name]} == {}


@pytest.mark.fresh
def test_what_somebody_has_changed_outlives_the_process(kernel):
    """Each change in a cell of its own, after a commit that has looked."""
    assert kernel.run(LIBRARIES).status == "ok"
    for change, show, shown in CHANGES:
        kernel.settle()
        assert kernel.run(change).status == "ok", change
        assert kernel.run(show).result == shown, change
    kernel.settle()
    pid = kernel.run("import os; os.getpid()").result
    kernel.settle()
    kernel.run(DIE)
    assert kernel.run("os.getpid()").result != pid
    assert kernel.run("; ".join(LIBRARIES.strip().splitlines())).status == "ok"
    found = [(change, kernel.run(show).result, shown) for change, show, shown in CHANGES]
    assert [one for one in found if one[1] != one[2]] == []
