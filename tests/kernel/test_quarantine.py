"""Objects that end, or hold up, whoever saves or loads them: they cost themselves, and no more."""

import effort
import pytest
from waiting import complete

STATE = """
import ctypes, os, time
class Other:
    def __init__(self, value): self.value = value
def end(how):
    if how == "exit": os._exit(3)
    if how == "segfault": ctypes.string_at(0)
    while how == "hang": time.sleep(1)
    raise ValueError("poison")
class Saved:
    "Ends the process that saves it."
    def __init__(self, how): self.how = how
    def __reduce_ex__(self, protocol): end(self.how)
class Loaded:
    "Ends the process that loads it."
    def __init__(self, how): self.how = how
    def __setstate__(self, state):
        vars(self).update(state)
        end(self.how)
numbers, other = [1, 2], Other(4)
array = __import__("numpy").arange(10_000.)
stays = (number for number in range(9))
"""
MADE = "\nfirst, {name}, last = Other(1), {kind}({how!r}), {{'k': Other(2)}}\n"
WHOLE = (
    "assert numbers == [1, 2] and other.value == 4 and array.sum() == 49995000, 'lost'\n"
    "assert first.value == 1 and last['k'].value == 2, 'lost'\n"
)
HOW = ["exit", "segfault", "hang", "exception"]
WORDS = {
    "exit": "exit status 3",
    "segfault": "signal 11",
    "hang": "took too long",
    "exception": "ValueError: poison",
}
QUICK = {"HOLDFAST_VALUE_SECONDS": "1", "HOLDFAST_RUN": "isolated"}


@pytest.fixture
def notebook(shared, request, tmp_path):
    with shared.lend(request, tmp_path, **QUICK) as kernel:
        good(kernel, STATE)
        yield kernel


@pytest.fixture
def untried(shared, request, tmp_path):
    """Nothing is tried in children: the processes themselves meet it."""
    with shared.lend(request, tmp_path, **QUICK, HOLDFAST_TRIALS="0") as kernel:
        good(kernel, STATE)
        yield kernel


def good(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", outcome.content
    return outcome


def poison(kernel, kind, how, head=""):
    return kernel.run(head + MADE.format(name="poison", kind=kind, how=how))


def is_gone(kernel):
    """`del` works, in commits and for later processes."""
    good(kernel, "del poison")
    kernel.settle()
    outcome = good(kernel, "%%isolated\n" + WHOLE + "print('poison' in dir())")
    assert outcome.stream() == "False\n"
    assert kernel.run("poison").content["evalue"] == "name 'poison' is not defined"


def goes_on(kernel):
    """What could be carried is, and what the main worker alone has is there, too."""
    good(kernel, WHOLE + "assert next(stays) == 0")
    outcome = good(kernel, "%%isolated\n" + WHOLE + "numbers.append(3)")
    assert good(kernel, "numbers.pop()").result == "3"
    return outcome


@pytest.mark.parametrize(("how", "idle"), effort.in_turn(HOW, [True, False]))
def test_saved_in_the_main_worker(notebook, how, idle):
    pid = good(notebook, "os.getpid()").result
    poison(notebook, "Saved", how)
    if idle:
        notebook.settle()
    goes_on(notebook)
    outcome = notebook.run("%%isolated\npoison")
    assert outcome.content["ename"] == "NotCarriedError" and "poison" in outcome.content["evalue"]
    assert WORDS[how] in outcome.content["evalue"]
    assert good(notebook, "poison.how").result == repr(how)  # it lives on
    assert good(notebook, "os.getpid()").result == pid
    is_gone(notebook)


@pytest.mark.parametrize("how", effort.core(HOW, ["exit", "exception"]))
def test_saved_in_an_isolated_cell(notebook, how):
    outcome = poison(notebook, "Saved", how, "%%isolated\n")
    assert outcome.status == "ok", outcome.content
    assert "poison" in outcome.stream("stderr") and WORDS[how] in outcome.stream("stderr")
    goes_on(notebook)
    assert WORDS[how] in notebook.run("poison").content["evalue"]


@pytest.mark.parametrize("how", effort.core(HOW, ["segfault", "hang"]))
def test_loaded_in_an_isolated_cell(notebook, how):
    assert poison(notebook, "Loaded", how).status == "ok"
    outcome = notebook.run("%%isolated\n" + WHOLE + "other.value = 5\npoison")
    assert outcome.content["ename"] in ("QuarantinedError", "NotCarriedError"), outcome.content
    assert "poison" in outcome.content["evalue"] and WORDS[how] in outcome.content["evalue"]
    good(notebook, "other.value -= 1")  # the cell ran
    goes_on(notebook)
    assert good(notebook, "poison.how").result == repr(how)  # where it was made, it is
    is_gone(notebook)


@pytest.mark.parametrize("how", effort.core(HOW, ["exit", "exception"]))
def test_loaded_at_adoption(notebook, how):
    pid = good(notebook, "os.getpid()").result
    outcome = poison(notebook, "Loaded", how, "%%isolated\n")
    assert outcome.status == "ok", outcome.content
    goes_on(notebook)
    assert good(notebook, "os.getpid()").result == pid
    outcome = notebook.run("poison")
    assert WORDS[how] in outcome.content["evalue"]
    if how != "exception":
        assert outcome.content["ename"] == "QuarantinedError"
        assert "`del poison`" in outcome.content["evalue"]
    is_gone(notebook)


@pytest.mark.parametrize("how", effort.core(HOW, ["segfault", "exception"]))
def test_loaded_by_a_new_main_worker(notebook, how):
    poison(notebook, "Loaded", how)
    notebook.settle()
    assert notebook.run("os._exit(4)").content["ename"] == "CellDied"
    good(notebook, WHOLE)
    assert notebook.run("poison").content["ename"] == "QuarantinedError"
    assert WORDS[how] in notebook.run("poison").content["evalue"]
    is_gone(notebook)
    assert notebook.run("os._exit(4)").content["ename"] == "CellDied"
    good(notebook, WHOLE)


@pytest.mark.parametrize("how", effort.core(["exit", "segfault", "hang"], ["exit", "hang"]))
def test_a_new_main_worker_that_dies_of_it(untried, how):
    poison(untried, "Loaded", how)
    pid = int(good(untried, "os.getpid()").result)
    untried.settle()  # right before: else a rollback, made for slow plain cells, may take over
    assert untried.run("os._exit(4)").content["ename"] == "CellDied"
    complete(untried, without=pid)
    outcome = untried.run(WHOLE)
    if outcome.status == "error":  # sent to one that was loading
        assert (
            outcome.content["ename"] == "CellDied" and "loading poison" in outcome.content["evalue"]
        )
        good(untried, WHOLE)
    assert WORDS[how] in untried.run("poison").content["evalue"]
    is_gone(untried)


@pytest.mark.parametrize("how", effort.core(["exit", "segfault", "hang"], ["segfault"]))
def test_a_main_worker_that_dies_at_adoption(untried, how):
    untried.settle()
    assert poison(untried, "Loaded", how, "%%isolated\n").status == "ok"
    outcome = untried.run(WHOLE)
    if outcome.status == "error":
        assert "loading poison" in outcome.content["evalue"]
        good(untried, WHOLE)
    assert WORDS[how] in untried.run("poison").content["evalue"]
    is_gone(untried)


@pytest.mark.parametrize("how", effort.core(["exit", "segfault"], ["exit"]))
def test_a_main_worker_that_dies_of_saving(untried, how):
    good(untried, "first, last = Other(1), {'k': Other(2)}")
    untried.settle()
    untried.run(f"poison = Saved({how!r})")
    outcome = untried.run("%%isolated\n" + WHOLE)
    if outcome.status == "error":  # it asked for the commit
        assert "saving poison" in outcome.content["evalue"], outcome.content
    good(untried, WHOLE)
    assert untried.run("poison").content["ename"] == "NameError"
