"""What a clean process lacks is named, and nothing that it does by itself harms the notebook.

What it has is the subject of the notebooks in tests/oracle: the same as ipykernel has.
"""

from pathlib import Path

import pytest
from waiting import until

ISOLATED = "%%isolated\n"


@pytest.fixture
def notebook(isolated_kernel):
    return isolated_kernel


def ok(notebook, code):
    outcome = notebook.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    assert outcome.stream("stderr") == "", (code, outcome.stream("stderr"))
    return outcome


def test_what_it_lacks_of_variables_is_named(notebook):
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
    assert said.splitlines() == [
        "holdfast: not carried out of this cell: the name 4 (a name that isn't kept): lost with the"
        " cell's process. Use a plain cell or --run=in-process",
        "holdfast: not carried out of this cell: the local variables in the traceback of late."
        " To debug it, use `%pdb on`",
        "holdfast: valid only in this cell's process: the addresses in where (id(), pointers)."
        " In the notebook the objects have other addresses: take them again there",
    ]
    ok(notebook, "for name in ('', 3): del globals()[name]")


RAISES = """
class Own(Exception):
    def __init__(self, left, right):
        super().__init__(left + right)
        self.sides = left, right

def fail(depth, kind):
    local = "its own"
    if depth:
        return fail(depth - 1, kind)
    if kind == 3:
        raise KeyError('a') from LookupError()
    raise [ValueError('no'), Own('a', 'b'), OSError(2, 'no')][kind]

for kind, name in enumerate(['first', 'second', 'third', 'fourth']):
    try:
        fail(2, kind)
    except Exception as error:
        globals()[name] = error
"""
SHOWN = """
import traceback
for error in first, second, third, fourth:
    frames = traceback.extract_tb(error.__traceback__)
    print(repr(error), error.args, [(frame.name, frame.line) for frame in frames])
"""
LOCALS = """
errors = first, second, third, fourth
[error.__traceback__.tb_next.tb_frame.f_locals.get('local') for error in errors]
"""


def test_a_kept_exception_shows_where_it_was_raised(notebook):
    """There and back; what its frames had in variables is no part of it, and named."""
    ok(notebook, RAISES)
    theirs = ok(notebook, SHOWN).stream()
    assert theirs.count("'fail'") == 12
    assert notebook.run(ISOLATED + SHOWN).stream() == theirs
    assert ok(notebook, LOCALS).result == str(["its own"] * 4)
    assert ok(notebook, ISOLATED + LOCALS).result == str([None] * 4)

    said = notebook.run(ISOLATED + RAISES).stream("stderr")
    assert "the local variables in the traceback of first, second, third, fourth." in said
    assert ok(notebook, SHOWN).stream() == theirs
    assert ok(notebook, ISOLATED + SHOWN).stream() == theirs


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


def test_arguments_that_cannot_be_carried_are_named_once(notebook):
    ok(notebook, "import sys, threading; given = sys.argv[:]; sys.argv[:] = [threading.Lock()]")
    assert "sys.argv" in notebook.run(ISOLATED + "1").stream("stderr")
    ok(notebook, ISOLATED + "1")
    ok(notebook, "assert len(sys.argv) == 1; sys.argv[:] = given")


def test_a_module_that_was_taken_out_is_not_another_one(notebook):
    ok(notebook, "import colorsys, sys; first = colorsys; del sys.modules['colorsys'], colorsys")
    error = notebook.run(ISOLATED + "first").content
    assert error["ename"] == "NotCarriedError" and "sys.modules" in error["evalue"]


@pytest.mark.parametrize("run", ["", ISOLATED])
def test_a_module_that_was_taken_out_is_found_where_python_finds_it(notebook, tmp_path, run):
    """And one that is loaded and whose file is gone is loaded from the text that it had."""
    (tmp_path / "aside").mkdir()
    for name in ("aside/off_path.py", "removed.py", "kept.py"):
        (tmp_path / name).write_text("x = 1\n")
    ok(notebook, "import os, sys; sys.path.append(os.path.abspath('aside'))\n"
                 "import kept, off_path, removed; del sys.path[-1]; os.remove('kept.py')")  # fmt: skip
    shown = "(kept.x, off_path.x, sys.modules['off_path'].x)"
    assert ok(notebook, ISOLATED + shown).result == "(1, 1, 1)"
    ok(notebook, "os.remove('removed.py'); del sys.modules['removed'], sys.modules['off_path']")
    ok(notebook, "import importlib.util; del off_path, removed")
    for name in ("removed", "off_path"):
        assert ok(notebook, run + f"importlib.util.find_spec({name!r})").result is None
        assert notebook.run(run + f"import {name}").content["ename"] == "ModuleNotFoundError"
    assert ok(notebook, run + "import kept; kept.x").result == "1"


def test_what_only_one_process_has_is_named(notebook):
    ok(notebook, "import sys, types, time\nsys.modules['made'] = types.ModuleType('made')")
    said = notebook.run(ISOLATED + "1").stream("stderr")
    assert "the module made" in said and "couldn't be carried over" in said
    assert notebook.run(ISOLATED + "1").stream("stderr") == ""
    said = notebook.run(ISOLATED + "sys.modules['late'] = types.ModuleType('late')").stream(
        "stderr"
    )
    assert "changed only in this cell's process: the module late" in said
    said = notebook.run(
        ISOLATED + "import threading; threading.Thread(target=time.sleep, args=(9,)).start()"
    ).stream("stderr")
    assert "running threads" in said
    ok(notebook, "del sys.modules['made']")


def test_an_attribute_that_no_codec_carries_is_named(notebook):
    said = notebook.run(ISOLATED + "import json; json.steps = (i for i in range(3))").stream(
        "stderr"
    )
    assert "json:steps" in said and "generator" in said


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


def test_a_function_that_reaches_what_stays_in_the_main_worker(notebook):
    ok(notebook, "g = (i for i in range(9))\ndef use(): return next(g)\ndef idle(): return 5")
    assert ok(notebook, ISOLATED + "idle()").result == "5"
    outcome = notebook.run(ISOLATED + "use()")
    assert outcome.content["ename"] == "NotCarriedError" and "'g'" in outcome.content["evalue"]
    assert ok(notebook, "use(), use()").result == "(0, 1)"


def test_a_group_with_a_member_that_stays(notebook):
    """A list that holds a lock can't go; a list beside it can, and both live on in the main worker."""
    ok(notebook, "import threading\nlock = threading.Lock(); box = [lock, 1]; free = [2]")
    assert ok(notebook, ISOLATED + "free.append(3); free").result == "[2, 3]"
    outcome = notebook.run(ISOLATED + "box")
    assert outcome.content["ename"] == "NotCarriedError"
    assert "'box'" in outcome.content["evalue"] and "lock" in outcome.content["evalue"]
    assert ok(notebook, "box[0] is lock, box[1], free").result == "(True, 1, [2, 3])"
