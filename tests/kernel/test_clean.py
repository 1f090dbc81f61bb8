"""State that a clean process has, and that comes back from it, though no variable holds it."""

import re
from pathlib import Path

import pytest
from waiting import until

ISOLATED = "%%isolated\n"

OWN = """
total, seen = 0, []
def count(n):
    global total
    total += n
    seen.append(n)
    return total
class Client:
    made = 0
    def __init__(self): Client.made += 1
"""

# What sets it, and an expression that shows it: by cells in both processes it gives the same.
STATE = [
    ("import sys; sys.setrecursionlimit(2345)", "sys.getrecursionlimit()"),
    ("import gc; gc.set_threshold(1234, 5, 6)", "gc.get_threshold()[:2]"),
    ("import locale; locale.setlocale(locale.LC_ALL, 'C')", "locale.setlocale(locale.LC_NUMERIC)"),
    ("import os, time; os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()", "time.tzname"),
    ("import tracemalloc; tracemalloc.start(3); tracemalloc.stop()", "tracemalloc.is_tracing()"),
    ("import signal; _ = signal.pthread_sigmask(signal.SIG_BLOCK, [12])",
     "12 in signal.pthread_sigmask(signal.SIG_BLOCK, [])"),
    ("import csv; csv.register_dialect('pipes', delimiter='|')",
     "next(csv.reader(['a|b'], 'pipes'))"),
    ("import logging; logging.addLevelName(25, 'NOTICE')", "logging.getLevelName(25)"),
    ("class Mine(logging.Logger): pass\nlogging.setLoggerClass(Mine)",
     "type(logging.getLogger('fresh')) is Mine"),
    ("import json; setattr(json, 'flag_' + 'x', 3); vars(json)['other'] = lambda: 4",
     "json.flag_x, json.other()"),
    ("sys.mine = [1]; sys.mine.append(2)", "sys.mine"),
    ("import builtins; builtins.shared = {'a': 1}", "shared"),
    ("import own; own.count(3); client = own.Client()", "own.total, own.seen, own.Client.made"),
    ("import calls; _ = calls.note(5)", "calls.log, calls.deep.log is calls.log"),
    ("caught = []\nold = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))",
     "signal.raise_signal(signal.SIGUSR1), caught.clear(), signal.getsignal(10).__name__"),
    ("def note(phase, info): pass\ngc.callbacks.append(note)", "note in gc.callbacks"),
    ("import copyreg\nclass P: pass\ncopyreg.pickle(P, lambda p: (P, ()))",
     "P in copyreg.dispatch_table"),
    ("import collections.abc\nclass Odd: pass\n_ = collections.abc.Sequence.register(Odd)",
     "isinstance(Odd(), collections.abc.Sequence)"),
    ("import sqlite3; sqlite3.register_converter('thing', lambda data: data)",
     "'THING' in sqlite3.converters"),
    ("shell = get_ipython(); formatter = shell.display_formatter.formatters['text/plain']\n"
     "_ = formatter.for_type(complex, lambda n, p, c: p.text('complex'))",
     "formatter.type_printers[complex].__module__, formatter(3j)"),
    ("from IPython.core.magic import register_line_magic\n"
     "@register_line_magic\ndef shout(line): return line.upper()",
     "shell.run_line_magic('shout', 'loud')"),
    ("runs = []\ndef ran(info=None): runs.append(1)\nshell.events.register('pre_run_cell', ran)",
     "ran in shell.events.callbacks['pre_run_cell']"),
    ("def swap(lines): return [line.replace('PLUSONE', '+ 1') for line in lines]\n"
     "shell.input_transformers_cleanup.append(swap)", "swap in shell.input_transformers_cleanup"),
    ("class Finder:\n    def find_spec(self, name, path=None, target=None): return None\n"
     "finder = Finder(); sys.meta_path.append(finder)", "finder in sys.meta_path"),
    ("here = globals(); y = 5", "here is globals(), here['y']"),
    ("table = {'a': 1}; keys, items = table.keys(), table.items(); table['b'] = 2",
     "list(keys), len(items)"),
    ("data = bytearray(b'hello'); view = memoryview(data)[1:3]; view[0] = 69",
     "bytes(data), view.obj is data"),
    ("import codecs; codecs.register(lambda name: codecs.lookup('utf-8') if name == 'own' else None)",
     "'é'.encode('own')"),
    ("codecs.register_error('mark', lambda error: ('#', error.end))", "'é'.encode('ascii', 'mark')"),
    ("import mimetypes; mimetypes.add_type('text/own', '.own')", "mimetypes.guess_type('a.own')"),
    ("import shutil; shutil.register_archive_format('own', lambda *a: 'made')",
     "'own' in dict(shutil.get_archive_formats())"),
    ("import xml.etree.ElementTree as tree; tree.register_namespace('mine', 'http://mine')",
     "tree.tostring(tree.Element('{http://mine}a'))"),
    ("import urllib.parse; urllib.parse.uses_netloc.append('s3'); urllib.parse.uses_relative.append('s3')",
     "urllib.parse.urljoin('s3://a/b', 'c')"),
    ("import html.entities; table = html.entities.entitydefs; table['mine'] = 'm'",
     "table is html.entities.entitydefs, table['mine'], len(table)"),
    ("from encodings.aliases import aliases; aliases['mine'] = 'utf_8'", "'é'.encode('mine')"),
    ("sys.modules['colorsys'] = None", "'colorsys' in sys.modules, sys.modules.get('colorsys')"),
    ("import random; draw = random.random; random.seed(3)", "draw.__self__ is random._inst"),
    ("import xml.dom.minidom, email.mime.audio, concurrent.futures.process",
     "xml.dom.minidom.Node.__name__, email.mime.audio.__name__, concurrent.futures.process.EXTRA_QUEUED_CALLS"),
    ("import contextvars; var = contextvars.ContextVar('var'); held = [1]; token = var.set(held); del token",
     "var.get() is held, held"),
]  # fmt: skip

LIBRARIES = [
    ("import numpy as np; _ = np.seterr(all='raise')", "np.geterr()['over']"),
    ("_ = np.seterrcall(print)", "np.geterrcall() is print"),
    ("import pandas as pd; pd.set_option('compute.use_numexpr', False)",
     "pd.get_option('compute.use_numexpr')"),
    ("pd.set_option('display.float_format', '{:.1f}'.format)",
     "pd.get_option('display.float_format')(1.25)"),
    ("@pd.api.extensions.register_series_accessor('mine')\nclass Mine:\n"
     "    def __init__(self, series): self.series = series\n"
     "    def twice(self): return (self.series * 2).tolist()", "pd.Series([1]).mine.twice()"),
    ("import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
     "first, second = plt.figure(), plt.figure(7); _ = plt.figure(1)",
     "plt.get_fignums(), plt.gcf() is first, plt.figure(7) is second, plt.figure(1) is first"),
    ("matplotlib.colormaps.register(matplotlib.colormaps['viridis'].copy(), name='mymap')",
     "'mymap' in matplotlib.colormaps"),
    ("clicks = []; number = first.canvas.mpl_connect('draw_event', lambda e: clicks.append(1))",
     "first.canvas.draw(), len(clicks) > 0"),
]  # fmt: skip


@pytest.fixture
def notebook(start_kernel, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "calls").mkdir()
    (tmp_path / "calls/__init__.py").write_text("log = []\nfrom . import deep\nfrom .deep import *")
    (tmp_path / "calls/deep.py").write_text(
        "from . import log\ndef note(x):\n    log.append(x)\n    return len(log)"
    )
    return start_kernel(env={"HOLDFAST_RUN": "isolated"})


def ok(notebook, code):
    outcome = notebook.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    assert outcome.stream("stderr") == "", (code, outcome.stream("stderr"))
    return outcome


@pytest.mark.parametrize("table", [STATE, LIBRARIES], ids=["state", "libraries"])
@pytest.mark.parametrize("is_isolated", [False, True])
def test_it_is_the_same_in_both_processes(notebook, table, is_isolated):
    """Set in one, shown in the other, and again where it was set."""
    if table is LIBRARIES:
        pytest.importorskip("matplotlib")
        pytest.importorskip("pandas")
    first, second = (ISOLATED, "") if is_isolated else ("", ISOLATED)
    for code, expression in table:
        shown = ok(notebook, f"{first}{code}\n{expression}").result
        assert shown is not None, expression
        for head in (second, first, second):
            assert ok(notebook, f"{head}{expression}").result == shown, (head, code)


def test_what_was_set_back(notebook):
    ok(notebook, "import sys, signal, json; limit = sys.getrecursionlimit()\n"
                 "sys.setrecursionlimit(2345); json.mine = 1; sys.mine = [1]\n"
                 "old = signal.signal(10, lambda *a: None)")  # fmt: skip
    ok(notebook, ISOLATED + "sys.setrecursionlimit(limit); _ = signal.signal(10, old)\n"
                            "del json.mine, sys.mine")  # fmt: skip
    shown = "sys.getrecursionlimit() == limit, signal.getsignal(10) == old, hasattr(json, 'mine'), hasattr(sys, 'mine')"
    for head in ("", ISOLATED):
        assert ok(notebook, head + shown).result == "(True, True, False, False)"


def test_calls_that_are_taken_back(notebook):
    ok(notebook, "import codecs, shutil\ndef find(name): return codecs.lookup('utf-8') if name == 'own' else None\n"
                 "codecs.register(find); shutil.register_archive_format('own', find)")  # fmt: skip
    ok(notebook, ISOLATED + "codecs.unregister(find); shutil.unregister_archive_format('own')")
    for head in ("", ISOLATED):
        assert notebook.run(head + "'x'.encode('own')").content["ename"] == "LookupError"
        assert ok(notebook, head + "'own' in dict(shutil.get_archive_formats())").result == "False"


def test_what_is_put_into_a_librarys_tables(notebook):
    """It stays the object that the library has, also where a variable is that."""
    ok(
        notebook,
        "from email.charset import add_alias, add_charset, CHARSETS, QP; import http.client",
    )
    ok(
        notebook,
        ISOLATED
        + "add_charset('own', QP); add_alias('mine', 'own'); http.client.responses[299] = 'Odd'",
    )
    shown = "import email.charset as module; CHARSETS is module.CHARSETS, 'own' in CHARSETS, module.ALIASES['mine'], http.client.responses.get(299)"
    for head in ("", ISOLATED):
        assert ok(notebook, head + shown).result == "(True, True, 'own', 'Odd')"
    ok(notebook, "del CHARSETS['own'], http.client.responses[299]")
    gone = "'own' in module.CHARSETS, 'own' in CHARSETS, 299 in http.client.responses"
    for head in (ISOLATED, "", ISOLATED):
        assert ok(notebook, head + gone).result == "(False, False, False)"


@pytest.mark.parametrize("way", ["isolated", "forked"])
def test_what_a_cell_collects_is_collected_in_the_notebook(notebook, way):
    ok(notebook, "class Plugin: pass\nclass Mine(Plugin): pass")
    ok(notebook, f"%%isolated --run={way}\nimport gc\ndel Mine\n_ = gc.collect()")
    assert ok(notebook, "Plugin.__subclasses__()").result == "[]"


def test_bases_and_name_of_a_class_that_is_known(notebook):
    ok(notebook, "class A: x = 1\nclass B: x = 2\nclass C(A): pass\nc = C()")
    ok(notebook, ISOLATED + "C.__bases__ = (B,); C.__name__ = 'Other'")
    for head in ("", ISOLATED):
        shown = ok(notebook, head + "c.x, C.__bases__ == (B,), C.__name__, A.__subclasses__()")
        assert shown.result == "(2, True, 'Other', [])"


def test_a_context_variable_is_not_set_by_a_comparison(notebook):
    """A commit decodes what may have changed once more, to compare it."""
    ok(notebook, "import contextvars; var = contextvars.ContextVar('var')")
    ok(notebook, ISOLATED + "token = var.set(['a']); mine = var.get(); del token")
    for number in range(2):
        ok(notebook, ISOLATED + "mine.append('b')")
        for head in ("", ISOLATED, ""):
            assert (
                ok(notebook, head + "mine is var.get(), len(mine)").result
                == f"(True, {number + 2})"
            )


def test_generators_behind_functions_are_the_modules_own(notebook):
    pytest.importorskip("numpy")
    ok(notebook, "import random, numpy as np; draw, rand = random.random, np.random.rand\n"
                 "random.seed(1); np.random.seed(1); one = draw(), random.random(), rand(), np.random.rand()\n"
                 "random.seed(1); np.random.seed(1)")  # fmt: skip
    drawn = "(draw(), random.random(), rand(), np.random.rand()) == one"
    assert ok(notebook, ISOLATED + drawn).result == "True"
    ok(notebook, ISOLATED + "random.seed(1); np.random.seed(1)")
    assert ok(notebook, drawn).result == "True"


def test_the_last_cells_outcome(notebook):
    asked = "last = get_ipython().last_execution_result; last.success, last.result, last.execution_count"
    ok(notebook, "5")
    assert ok(notebook, ISOLATED + asked).result == "(True, 5, 1)"
    assert ok(notebook, asked).result == "(True, (True, 5, 1), 2)"
    notebook.run(ISOLATED + "1 / 0")
    assert ok(notebook, ISOLATED + asked).result == "(False, None, 4)"


def test_what_was_shown_is_not_shown_again(notebook):
    """Binding sets filters, and forgets nothing."""
    ok(notebook, "import warnings; vars(warnings)['once'] = 1")  # a module of a library's
    warn = "warnings.warn_explicit('seen', UserWarning, 'f', 1, 'json', vars(json).setdefault('__warningregistry__', {}))"
    ok(notebook, "import json; warnings.simplefilter('default')")
    assert "seen" in notebook.run(ISOLATED + warn).stream("stderr")
    for head in (ISOLATED, ISOLATED, "", ISOLATED):
        assert notebook.run(head + warn).stream("stderr") == ""


def test_what_a_clean_process_lacks_of_variables_is_named(notebook):
    ok(notebook, "globals()[''] = globals()[3] = 1; held = [1]; ids = {id(held): 1}\n"
                 "try: 1 / 0\nexcept Exception as error: kept = error")  # fmt: skip
    said = notebook.run(ISOLATED + "1").stream("stderr")
    for name in (
        "the name ''",
        "the name 3",
        "the local variables in the traceback of kept",
        "the addresses in ids",
    ):
        assert f"holdfast: {name} couldn't be carried over" in said
    assert notebook.run(ISOLATED + "1").stream("stderr") == ""
    said = notebook.run(ISOLATED + "globals()[4] = 1; other = [1]; where = id(other)\n"
                        "try: 1 / 0\nexcept Exception as error: late = error").stream("stderr")  # fmt: skip
    assert "holdfast: not carried out of this cell: " in said and "; the name 4 (" in said
    assert (
        "the local variables in the traceback of late" in said
        and "the addresses in where (" in said
    )


RAISES = """
class Own(Exception):
    def __init__(self, left, right):
        super().__init__(left + right)
        self.sides = left, right

def fail(depth):
    local = "its own"
    if depth:
        return fail(depth - 1)
    raise KINDS

try:
    fail(2)
except Exception as error:
    kept = error
"""
SHOWN = "import traceback; print(''.join(traceback.format_tb(kept.__traceback__)), repr(kept))"


@pytest.mark.parametrize(
    "kind",
    ["ValueError('no')", "Own('a', 'b')", "OSError(2, 'no')", "KeyError('a') from LookupError()"],
)
def test_a_kept_exception_shows_where_it_was_raised(notebook, kind):
    """There and back; what its frames had in variables is no part of it, and named."""
    ok(notebook, RAISES.replace("KINDS", kind))
    line = re.compile("\\n +[~^]+")  # below a line that Python knows the columns of
    theirs = line.sub("", notebook.run(SHOWN).stream())
    assert theirs.count("in fail") == 3
    assert notebook.run(ISOLATED + SHOWN).stream() == theirs
    locals_ = "kept.__traceback__.tb_next.tb_frame.f_locals.get('local')"
    assert ok(notebook, locals_).result == "'its own'"
    assert ok(notebook, ISOLATED + locals_).result is None

    said = notebook.run(ISOLATED + RAISES.replace("KINDS", kind)).stream("stderr")
    assert said.endswith("of this cell: the local variables in the traceback of kept\n")
    place = re.compile(r'File ".*?", line \d+')
    back = notebook.run(SHOWN).stream()
    assert place.sub("", back) == place.sub("", theirs)
    said = notebook.run(ISOLATED + SHOWN)
    assert said.stream() == back and "traceback of" not in said.stream("stderr"), "nothing is lost"


TRACKED = """
import os
from multiprocessing import resource_tracker
again = shared_memory.SharedMemory(memory.name)
print(os.getpid(), resource_tracker._resource_tracker._pid)
"""


def test_shared_memory_outlives_a_cell_that_attaches_it(notebook):
    """Python's tracker of it, one in each process, would remove it when the cell's process ends."""
    ok(notebook, "from multiprocessing import shared_memory")
    ok(notebook, "memory = shared_memory.SharedMemory(create=True, size=100); memory.buf[0] = 5")
    outcome = notebook.run(ISOLATED + TRACKED)  # it has no child of the notebook's, and says so
    for pid in outcome.stream().split()[:2]:
        until(lambda: not Path("/proc", pid).exists())
    ok(notebook, "other = shared_memory.SharedMemory(memory.name); assert other.buf[0] == 5")
    ok(notebook, "other.close(); memory.close(); memory.unlink()")


def test_streams_that_another_object_stands_for_are_named(notebook):
    """One that the notebook's own class made is carried instead, and text in memory."""
    ok(notebook, "import io, sys; own = sys.stdout; sys.stdout = kept = io.StringIO()")
    outcome = notebook.run(ISOLATED + "print('there')")
    assert outcome.stream() == outcome.stream("stderr") == ""
    ok(notebook, "assert sys.stdout is kept and kept.getvalue() == 'there\\n', kept.getvalue()")
    ok(notebook, "sys.stdout = kept = io.TextIOWrapper(io.BytesIO())")
    outcome = notebook.run(ISOLATED + "print('here')")
    assert outcome.stream() == "here\n"
    assert "what stands for sys.stdout and sys.stderr couldn't be" in outcome.stream("stderr")
    ok(notebook, "sys.stdout = own")
    assert notebook.run(ISOLATED + "1").stream("stderr") == ""


def test_a_module_that_was_taken_out_is_not_another_one(notebook):
    ok(notebook, "import colorsys, sys; first = colorsys; del sys.modules['colorsys'], colorsys")
    error = notebook.run(ISOLATED + "first").content
    assert error["ename"] == "NotCarriedError" and "sys.modules" in error["evalue"]


def test_what_only_one_process_has_is_named(notebook):
    ok(notebook, "import sys, types, time\nsys.modules['made'] = types.ModuleType('made')")
    said = notebook.run(ISOLATED + "1").stream("stderr")
    assert "the module made" in said and "couldn't be carried over" in said
    assert notebook.run(ISOLATED + "1").stream("stderr") == ""
    said = notebook.run(ISOLATED + "sys.modules['late'] = types.ModuleType('late')").stream(
        "stderr"
    )
    assert "changed in this cell's process alone: the module late" in said
    said = notebook.run(
        ISOLATED + "import threading; threading.Thread(target=time.sleep, args=(9,)).start()"
    ).stream("stderr")
    assert "threads that it started" in said


REFLECTION = [
    ("first, second = 1, [2]; names = ['second']",
     "import sys; [getattr(sys.modules[__name__], n) for n in names]", "[[2]]"),
    ("def double(x):\n    '''\n    >>> double(2)\n    4\n    '''\n    return 2 * x",
     "import doctest; doctest.testmod().attempted", "1"),
    ("import typing\nclass Node:\n    value: 'Value'\nValue = typing.Union[int, str]",
     "typing.get_type_hints(Node)['value'] == Value", "True"),
    ("import pickle; rows = list(range(50_000))\nclass Model:\n    def __init__(self): self.a = 1\n"
     "with open('model', 'wb') as file: pickle.dump(Model(), file)",
     "import importlib; importlib.import_module('pic' + 'kle').load(open('model', 'rb')).a", "1"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFLECTION)))
def test_what_a_cell_reaches_by_reflection(notebook, case):
    make, use, shown = REFLECTION[case]
    ok(notebook, make)
    assert ok(notebook, ISOLATED + use).result == shown


def test_what_is_large_is_bound_when_somebody_asks_the_module(notebook):
    ok(
        notebook,
        "rows = list(range(50_000)); name, main = 'ro' + 'ws', '__ma' + 'in__'\nimport sys",
    )
    outcome = ok(
        notebook, ISOLATED + "found = getattr(sys.modules[main], name); found.append(1); len(found)"
    )
    assert outcome.result == "50001" and outcome.cost["names_skipped"] >= 1
    assert ok(notebook, "len(rows), found is rows").result == "(50001, True)"
    ok(notebook, "def look(): return len(rows)\nlooks = {'a': look}")
    outcome = notebook.run(
        ISOLATED + "code = compile(''.join(['ro', 'ws']), '', ''.join(['ev', 'al']))\n"
        "type(lambda: 0)(code, getattr(sys.modules[main], ''.join(['__di', 'ct__'])))()"
    )
    assert outcome.content["ename"] == "NotCarriedError"
    assert "doesn't show that it uses it" in outcome.content["evalue"]


def test_what_is_asked_of_an_error_in_another_process(notebook):
    assert notebook.run(ISOLATED + "import sys; [][3]").status == "error"
    for head in ("", ISOLATED):
        outcome = notebook.run(head + "sys.last_value")
        assert outcome.content["ename"] == "AttributeError"
        assert "can't be carried" in outcome.content["evalue"]
