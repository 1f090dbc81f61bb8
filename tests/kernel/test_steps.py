"""The steps that %holdfast undo goes back by: which cells make one."""

import copy
import random
import re
from pathlib import Path

import digest
import effort
import pytest

RECORDED = "%%execute_with_scorep\n"
MODES = {
    "plain": "",
    "in-process": "%%execute_with_scorep --run=in-process\n",
    "forked": "%%execute_with_scorep --run=forked\n",
    "isolated": "%%isolated\n",
}
MADE = """
import collections
class C:
    number = 1
    def __repr__(self): return 'a C'
x = 0; a = [[1], 2]; b = a; d = {'a': a}; o = C(); o.a = a
"""
LOOKS = [
    "a",
    "a, b",
    "a[0]",
    "d",
    "[x, o]",
    "o",
    "d['a'] is a",
    "f'{a}'",
    "print(a, o)",
    "{'k': b}",
    "x",
    "import collections; collections.deque([a])",
]


def run(kernel, *codes):
    """As a person does, with a pause behind each cell; the number of the last one."""
    for code in codes:
        outcome = kernel.run(code)
        assert outcome.status == "ok", outcome.content
        number = outcome.content["execution_count"]
        kernel.settle()
    return number


def at_once(kernel, *codes):
    """Without a pause; the number of the first one."""
    sent = [kernel.client.execute(code) for code in codes]
    return [kernel.finish(one).content["execution_count"] for one in sent][0]


def command(kernel, words):
    outcome = kernel.run(f"%holdfast {words}")
    assert outcome.status == "ok", outcome.content
    return outcome.stream()


def undo(kernel):
    return command(kernel, "undo")


def refused(kernel, words):
    outcome = kernel.run(f"%holdfast {words}")
    assert outcome.content["ename"] == "HistoryError", outcome.content
    return outcome.content["evalue"]


@pytest.mark.parametrize("head", effort.core([RECORDED, "%%isolated\n"], [RECORDED]))
def test_a_cell_that_follows_a_plain_one_at_once_can_be_undone(shared_kernel, head):
    for code in ("x = [1]", head + "x.append(2)"):
        assert shared_kernel.run(code).status == "ok"
    assert "Changed: x." in undo(shared_kernel)
    assert shared_kernel.run("x").result == "[1]"


def test_a_cell_that_failed_can_be_undone(shared_kernel):
    assert shared_kernel.run("x = [1]").status == "ok"
    assert shared_kernel.run(RECORDED + "x.append(2); 1 / 0").status == "error"
    undo(shared_kernel)
    assert shared_kernel.run("x").result == "[1]"


def test_what_ipython_forgets_is_no_step(shared_kernel):
    """It deletes `__warningregistry__` before each cell."""
    run(shared_kernel, "import warnings; x = 1", "x = 2; warnings.warn('seen')", "print('nothing')")
    assert undo(shared_kernel).startswith("Cell ")
    assert shared_kernel.run("x").result == "1"


def test_undo_goes_back_by_cells_that_changed_something(shared_kernel):
    """The example of docs/history.md."""
    kernel = shared_kernel
    third = run(kernel, "a = [1]", "a.append(2)", "a.append(3)")
    run(kernel, "a", "print(a)")
    for number, value in ((third, "[1, 2]"), (third - 1, "[1]")):
        text = undo(kernel)
        assert text.startswith(f"Cell {number} is undone") and "Changed: a.\n" in text
        assert kernel.run("a").result == value
        kernel.settle()


@pytest.mark.parametrize("mode", effort.core(MODES, ["plain", "isolated"]))
def test_to_show_is_no_step(shared_kernel, mode):
    kernel, head = shared_kernel, MODES[mode]
    last = run(kernel, MADE, "x = 1; a.append(3)")
    before = command(kernel, "history")
    run(kernel, *(head + look for look in LOOKS))
    assert _rows(command(kernel, "history")) == _rows(before)
    assert undo(kernel).startswith(f"Cell {last} is undone")
    assert (
        kernel.run("x, a, b is a, d['a'] is a, o.a is a").result
        == "(0, [[1], 2], True, True, True)"
    )


def _rows(text):
    return re.findall(r"^ *(\d+)  \d\d:\d\d:\d\d", text, re.M)


def test_what_was_only_shown_stays_the_object_that_it_is(shared_kernel):
    kernel = shared_kernel
    run(kernel, "a = [1]; x = 1", "a", "x = 2", "a", "first = id(a); x = 3")
    text = undo(kernel)
    assert "Changed: x." in text and "Gone: first." in text
    run(kernel, "first = id(a)", "y = 5", "(a, x)")
    assert "Gone: y." in undo(kernel)
    assert kernel.run("id(a) == first, x").result == "(True, 2)"


@pytest.mark.parametrize(
    "change, look, right",
    [
        ("C.number = 2", "C.number", "1"),
        ("a = (n for n in a)", "a", "[[1], 2]"),
        ("b = copy.deepcopy(a)", "b is a", "True"),
        ("del a", "a", "[[1], 2]"),
        ("a[:] = []; a", "a", "[[1], 2]"),
        ("o.a = a[:]; o.a", "o.a is a", "True"),
    ],
)
def test_each_kind_of_change_is_a_step(shared_kernel, change, look, right):
    kernel = shared_kernel
    number = run(kernel, "import copy\n" + MADE, "a, b, o", change)
    run(kernel, "b")
    assert undo(kernel).startswith(f"Cell {number} is undone")
    assert kernel.run(look).result == right


def test_cells_without_a_pause_are_asked_for(shared_kernel):
    kernel = shared_kernel
    run(kernel, "a = [1]", "a.append(2)")
    third = at_once(kernel, "a.append(3)", "a.append(4)", "a.append(5)")
    words = (
        f"In[{third}] to In[{third + 2}] ran without a pause: undo takes them back together."
        f" To go to before In[{third}], run `%holdfast undo --to {third - 1}`"
    )
    assert refused(kernel, "undo") == refused(kernel, "undo") == words
    assert refused(kernel, f"undo --to {third}") == words
    assert kernel.run("a").result == "[1, 2, 3, 4, 5]"
    text = command(kernel, f"undo --to {third - 1}")
    assert text.startswith(f"Cells {third}, {third + 1}, {third + 2} are undone")
    assert kernel.run("a").result == "[1, 2]"
    command(kernel, f"undo --to {third + 2}")
    assert kernel.run("a").result == "[1, 2, 3, 4, 5]"


def test_cells_that_only_look_are_no_part_of_a_run(shared_kernel):
    kernel = shared_kernel
    run(kernel, "a = [1]; x = 1")
    first = at_once(kernel, "a", "print(x)", "a.append(x)", "(a, x)", "print(a)")
    assert undo(kernel).startswith(f"Cell {first + 2} is undone")
    assert kernel.run("a").result == "[1]"


def test_a_cell_that_calls_code_of_a_cell_counts(shared_kernel):
    kernel = shared_kernel
    run(kernel, "a = [1]")
    first = at_once(kernel, "def f(): a.append(2)", "f()", "print(1)")
    assert f"In[{first}] and In[{first + 1}] ran without" in refused(kernel, "undo")


def test_numbers_of_cells_that_are_not_there(shared_kernel):
    kernel = shared_kernel
    last = run(kernel, "x = 1", "x = 2", "x")
    assert refused(kernel, "undo --to 999").startswith("In[999] hasn't run; kept")
    assert refused(kernel, f"undo --to {last}").startswith(
        f"no variable has changed since In[{last}]"
    )
    for words in ("undo --to", "undo --to x", "undo 1", "undo --to 1 2"):
        assert kernel.run(f"%holdfast {words}").content["ename"] == "UsageError"
    assert kernel.run("x").result == "2"


# ---- random cells

EDITS = [
    "x += 1",
    "y.append(x)",
    "y = [y, x]",
    "z = y",
    "d['k{n}'] = z",
    "d.pop('k{n}', None)",
    "d = dict(d)",
    "s = (x, y)",
    "o.number = {n}",
    "o = C(); o.y = y",
    "C.factor = {n}",
    "f = lambda: 0",
    "globals().pop('s', None)",
    "x = x",
    "y[:] = list(y)",
    "s = s if 's' in globals() else 0",
]
EQUAL = {"f = lambda: 0", "o = C(); o.y = y", "d = dict(d)", "s = (x, y)", "y[:] = list(y)"}
SHOWN = ["x", "y", "y, z", "[d, o]", "print(y)", "d", "len(y)", "o", "(x, [y])", "f"]
BEGIN = "class C:\n    factor = 1\nx = 0; y = []; z = y; d = {}; o = C(); f = None"
NAMES = "xyzdsofC"


DIGEST = """
import sys
sys.path.insert(0, {support!r})
from digest import digest as _digest
sys.path.pop(0)
"""


class Model:
    """What the notebook should be: deep copies of the states before its cells."""

    def __init__(self):
        self.namespace = {"__name__": "__main__"}
        self.steps = []  # of each cell that changed something: its number, the state before it
        self.texts = {}  # by the number of a cell: the digest before it
        self.rested = set()  # numbers of cells after which there was a pause
        self.codes = {}  # by the number of a cell
        self.after = {}  # by the number of a cell: the state after it, and the steps up to it

    def state(self):
        own = {name: self.namespace[name] for name in NAMES if name in self.namespace}
        return copy.deepcopy(own), getattr(own.get("C"), "factor", None)

    def digest(self):
        factor = getattr(self.namespace.get("C"), "factor", None)
        return f"{digest.digest(self.namespace, NAMES)} {factor}"

    def run(self, number, code):
        before, text = self.state(), self.digest()
        exec(code, self.namespace)
        if self.digest() != text:
            self.steps.append((number, before))
        self.texts[number] = text
        self.codes[number] = code
        self.note(number)

    def note(self, number):
        self.after[number] = self.state(), list(self.steps)

    def be(self, state):
        own, factor = copy.deepcopy(state)
        for name in NAMES:
            self.namespace.pop(name, None)
        self.namespace |= own
        self.namespace["C"].factor = factor

    def check(self, first, last, said):
        """The steps that are undone are the last ones: from the last cell that changed something on, or later
        ones that have bound a name to an equal object. Cells without a pause that together change nothing are
        no step."""
        later = [number for number, _ in self.steps if number > last]
        if later and self.rested.isdisjoint(range(later[0], later[-1])):
            if self.texts[later[0]] == self.digest():
                return
        sure = self.steps[-1][0]
        ran = {number: code for number, code in self.codes.items() if first <= number <= last}
        is_equal = sure < first and not EQUAL.isdisjoint(ran.values())
        assert first <= sure <= last or is_equal, (said, sure, ran)

    def undo(self, first):
        """The cells from this one on."""
        while self.steps and self.steps[-1][0] >= first:
            self.be(self.steps.pop()[1])


def check(kernel, model, what):
    look = f"print(_digest(globals(), {NAMES!r}), C.factor)"
    found = kernel.run(look, store_history=False).stream().strip()
    assert found == model.digest(), what


def go_back(kernel, model, chooser, first):
    """One command; `first`: cells before it can't be undone."""
    outcome = kernel.run("%holdfast undo")
    if outcome.status == "error":
        said = outcome.content["evalue"]
        if "there is no step before" in said:
            assert all(number <= first for number, _ in model.steps), said
            return
        run = re.match(r"In\[(\d+)\] (?:to|and) In\[(\d+)\] ran without a pause: undo takes", said)
        model.check(int(run[1]), int(run[2]), said)
        check(kernel, model, said)
        if chooser.random() < 0.3:
            return
        outcome = kernel.run("%holdfast " + re.search(r"`%holdfast (undo --to \d+)`", said)[1])
    said = outcome.stream()
    undone = [
        int(one) for one in re.match(r"Cells? ([\d, ]+) (?:is|are) undone", said)[1].split(", ")
    ]
    model.check(undone[0], undone[-1], said)
    model.undo(undone[0])
    number = outcome.content["execution_count"]
    model.note(number)
    back = int(re.search(r"%holdfast checkout (\d+) takes it back", said)[1])
    check(kernel, model, said)
    if chooser.random() < 0.2:
        state, steps = (
            model.after[number - 1] if number - 1 in model.after else model.after[number - 2]
        )
        outcome = kernel.run(f"%holdfast checkout {back}")
        model.steps = list(steps)
        model.be(state)
        model.note(outcome.content["execution_count"])
        check(kernel, model, outcome.stream())


@pytest.mark.parametrize("seed", effort.core(range(12), [0]))
def test_random_cells_and_returns_against_deep_copies(kernel, seed):
    chooser, model = random.Random(seed), Model()
    kernel.settle()
    for limit in ("0", "1G"):
        command(kernel, f"history {limit}")
    run(kernel, DIGEST.format(support=str(Path(digest.__file__).parent)))
    first = run(kernel, BEGIN)
    model.run(first, BEGIN)
    returns = 0
    for _ in range(effort.examples(30)):
        if chooser.random() < 0.2 and returns < 18 and len(model.steps) > 1:
            returns += 1
            go_back(kernel, model, chooser, first)
            continue
        code = chooser.choice(EDITS if chooser.random() < 0.6 else SHOWN).format(
            n=chooser.randrange(9)
        )
        head = MODES[chooser.choice(list(MODES))] if chooser.random() < 0.4 else ""
        outcome = kernel.run(head + code)
        assert outcome.status == "ok", (code, outcome.content)
        model.run(outcome.content["execution_count"], code)
        if chooser.random() < 0.6:
            kernel.settle()
            model.rested.add(outcome.content["execution_count"])
    check(kernel, model, "the end")
