"""`__del__` and exit handlers: each runs once, where ipykernel would run it."""

import pytest

ISOLATED = "%%isolated --run=isolated\n"
CLASS = (
    "import os\n"
    "def put(name):\n"
    "    with open('ends.txt', 'a') as file: file.write(name + '\\n')\n"
    "class Held:\n"
    "    def __init__(self, name): self.name = name\n"
    "    def __del__(self): put(self.name)\n"
)


@pytest.fixture
def notebook(isolated_kernel, tmp_path):
    """A kernel whose directory has what ended, in a file."""
    kernel = isolated_kernel

    def ended():
        kernel.run(ISOLATED + "pass")  # the cell's process before this one has ended
        path = tmp_path / "ends.txt"
        return path.read_text().split() if path.exists() else []

    kernel.ended = ended
    return kernel


def test_reading_an_object_does_not_end_it(notebook):
    notebook.run(CLASS + "one = Held('one'); many = [Held('two'), {'x': Held('three')}]")
    outcome = notebook.run(ISOLATED + "new = Held('new'); one.name, len(many)")
    assert outcome.result == "('one', 2)"
    assert notebook.ended() == []
    assert notebook.run("one.name, many[1]['x'].name, new.name").result == "('one', 'three', 'new')"
    notebook.run("del one, new")
    assert notebook.ended() == ["one", "new"]


def test_an_object_that_a_cell_changed_does_not_end(notebook):
    notebook.run(CLASS + "one = Held('one'); many = [Held('two')]; outer = [many]")
    notebook.run(ISOLATED + "one.name = 'changed'; many.append(1)")
    assert notebook.run("one.name, outer[0][1]").result == "('changed', 1)"
    assert notebook.ended() == []
    notebook.run("one = None; del many, outer")
    assert notebook.ended() == ["changed", "two"]


def test_an_object_that_a_cell_deletes_ends_once(notebook):
    notebook.run(
        CLASS + "one, two = Held('one'), Held('two'); many = [Held('three'), Held('four')]"
    )
    assert notebook.run(ISOLATED + "del one; two = Held('new'); del many[0]").status == "ok"
    assert notebook.run("two.name, [each.name for each in many]").result == "('new', ['four'])"
    assert sorted(notebook.ended()) == ["one", "three", "two"]
    notebook.run("del two, many")
    assert notebook.ended()[3:] == ["new", "four"]


def test_what_is_not_carried_ends_with_its_cell(notebook):
    code = "import threading; held = Held('lost'); held.lock = threading.Lock()"
    notebook.run(CLASS + "one = Held('one')")
    outcome = notebook.run(ISOLATED + code + "; held.other = one")
    assert "not carried out of this cell: held" in outcome.stream("stderr")
    assert notebook.ended() == ["lost"]
    assert notebook.run("one.name").result == "'one'"


def test_what_a_cell_had_no_copy_of_ends_in_the_notebook(notebook):
    """The cell has no copy of a shelf, and none of what it fails to load."""
    notebook.run(
        CLASS + "import os, shelve\nfrom threading import Lock\n"
        "shelf = shelve.open('shelf', writeback=True); shelf['a'] = []; shelf['a'].append(1)\n"
        "one = Held('one'); one.lock = Lock(); main = os.getpid()\n"
        "class Here(Held):\n"
        "    def __setstate__(self, state): assert os.getpid() == main; vars(self).update(state)\n"
        "two = Here('two')"
    )
    assert notebook.run(ISOLATED + "shelf = one = two = None").status == "ok"
    assert sorted(notebook.ended()) == ["one", "two"]
    assert notebook.run("with shelve.open('shelf') as again: found = again['a']\nfound").result == (
        "[1]"
    )


def test_what_is_not_carried_ends_once_if_a_fork_ends_it(notebook):
    code = "from threading import Lock\none, two = Held('one'), Held('two'); one.lock = two.lock = Lock()"
    notebook.run(CLASS + code)
    for cell in ("del one", "two = None"):
        assert notebook.run(f"%%isolated --run=forked\n{cell}").status == "ok"
    assert notebook.ended() == ["one", "two"]


def test_objects_that_are_read_twice(notebook):
    """Reading objects with code of the user's own is tried in a forked child, and a value that may
    have changed is read again to be compared."""
    notebook.run(
        CLASS + "class Tried(Held):\n"
        "    def __setstate__(self, state): self.__dict__.update(state)\n"
        "one = Tried('one'); two = Held('two'); two.words = {'a', 'b', 'c', 'd'}"
    )
    notebook.run(ISOLATED + "kept = one.name, len(two.words)")
    notebook.run(ISOLATED + "two.words.remove('a'); two.words.add('a')")
    assert notebook.run("kept").result == "('one', 4)"
    assert notebook.ended() == []


FINALIZED = (
    CLASS + "import weakref\nclass Node:\n    def __init__(self, name): self.name = name\n"
    "one, two, lost = Node('one'), Node('two'), Node('lost')\n"
    "end = weakref.finalize(one, put, 'one'); _ = weakref.finalize(two, put, 'two')\n"
    "third = Node('third'); third.end = weakref.finalize(third, put, 'third')\n"
)


@pytest.mark.parametrize("first", ["", ISOLATED])
def test_finalizers_are_the_notebooks(notebook, first):
    notebook.run(first + FINALIZED)
    shown = "end.alive, end.peek()[0] is one, third.end.peek()[0] is third, one.name"
    for head in ("", ISOLATED):
        assert notebook.run(head + shown).result == "(True, True, True, 'one')"
    notebook.run(ISOLATED + "one.name = 'other'; two.name = third.name = 'new'")
    assert notebook.ended() == []
    assert notebook.run(shown).result == "(True, True, True, 'other')"
    notebook.run(ISOLATED + "del one")
    assert notebook.ended() == ["one"]
    notebook.run("del two, third")
    assert notebook.ended() == ["one", "two", "third"]
    assert [notebook.run(head + "end.alive").result for head in ("", ISOLATED)] == ["False"] * 2


def test_finalizers_run_at_the_end_of_the_kernel(notebook, tmp_path):
    notebook.run(FINALIZED)
    notebook.run(ISOLATED + "late = Node('late'); _ = weakref.finalize(late, put, 'late')")
    notebook.run(ISOLATED + "end.atexit = False; late.name = 'later'")
    assert notebook.run("end.atexit, third.end.atexit").result == "(False, True)"
    assert notebook.ended() == []
    notebook.close()
    assert sorted((tmp_path / "ends.txt").read_text().split()) == ["late", "one", "third", "two"]


def test_exit_handlers_run_at_the_end_of_the_kernel(notebook, tmp_path):
    notebook.run(CLASS + "import atexit; atexit.register(put, 'plain')")
    said = notebook.run(ISOLATED + "@atexit.register\ndef last(): put('last')").stream("stderr")
    assert "exit handlers" in said
    assert notebook.run(ISOLATED + "last.__name__").stream("stderr") == ""
    assert "exit handlers" in notebook.run(ISOLATED + "atexit.unregister(put)").stream("stderr")
    assert notebook.ended() == []
    notebook.close()
    assert (tmp_path / "ends.txt").read_text().split() == ["plain"]


def test_exit_handlers_of_libraries_run_in_their_own_process(notebook):
    register = "__import__('atexit').register(put, 'library')"
    notebook.run(CLASS + "import json")
    notebook.run(ISOLATED + f"json.put = put; _ = eval({register!r}, vars(json)); del json.put")
    assert notebook.ended() == ["library"]


@pytest.mark.parametrize("run", ["forked", "isolated"])
def test_what_stays_ends_with_its_name(isolated_kernel, run):
    """A commit that couldn't encode a value doesn't hold it."""
    kernel = isolated_kernel
    kernel.run(CLASS.replace("put(self.name)", "print('ends')"))
    code = "held = Held(''); held.part = (n for n in [1]); other = Held(''); other.part = held.part"
    kernel.run(code)
    assert kernel.run(f"%%execute_with_scorep --run={run}\n1").status == "ok"
    assert kernel.run("del held; print('after')").stream() == "ends\nafter\n"
    assert kernel.run("other = 1; print('after')").stream() == "ends\nafter\n"
