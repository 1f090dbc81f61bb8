"""%holdfast rerun: the cells whose changes a crash has lost run again, and nothing else does."""

import re

import kernel_programs
import pytest
from waiting import printed

DIE = "import os; os.kill(os.getpid(), 9)"
IN_PROCESS = "%%isolated --run=in-process\n"
RERUN = "%holdfast rerun"


@pytest.fixture
def kernel(lend):
    """Nothing protects its cells: a crash loses all that the last commit doesn't have."""
    kernel = lend(HOLDFAST_PROTECT="never")
    kernel.settle()  # what other tests and the loan have run isn't lost
    return kernel


def crash(kernel, place, cells, dying=DIE, wait=None, unnumbered=()):
    """Send the cells and one that dies, as by "Run All": none ends before all are there, so no idle moment comes
    between them. Their outcomes, without that of the first one, which waits; and its number."""
    go = place / "go"
    go.unlink(missing_ok=True)
    wait = wait or f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    sent = [
        kernel.client.execute(code, stop_on_error=False, store_history=code not in unnumbered)
        for code in [wait, *cells, dying]
    ]
    go.touch()
    first, *outcomes = [kernel.finish(one) for one in sent]
    assert first.status == "ok", first.content
    assert outcomes[-1].content["ename"] == "CellDied", outcomes[-1].content
    return outcomes, first.content["execution_count"]


def named(outcome):
    """The numbers of the cells that the error of a crash names."""
    text = outcome.content["evalue"]
    found = re.search(r"\(run (.*) again, or `%holdfast rerun`\)", text)
    return numbers(found[1]) if found else []


def numbers(text):
    every = []
    for first, last in re.findall(r"In\[(\d+)\](?: to In\[(\d+)\])?", text):
        every += range(int(first), int(last or first) + 1)
    return every


def ran(outcome):
    """The numbers of the cells that ran again."""
    return [int(one) for one in re.findall(r"^In\[(\d+)\] again$", outcome.stream(), re.MULTILINE)]


def left(outcome):
    """Those that the request has left."""
    found = re.search(
        r"not run again yet: (.*); `%holdfast rerun` goes on", outcome.stream("stderr")
    )
    return numbers(found[1]) if found else []


def states(outcome):
    return [m["content"]["execution_state"] for m in outcome.messages if m["msg_type"] == "status"]


def test_all_that_was_lost_runs_again(kernel, tmp_path):
    cells = [
        "n = [0]; n",
        "_.append(1)\nprint('printed')\nn",
        "%%time\nn.append(2)",
        "_ + [3]",
    ]
    (*before, died), first = crash(kernel, tmp_path, cells)
    lost = list(range(first, first + 5))
    assert named(died) == lost
    assert kernel.run("n").content["ename"] == "NameError"
    number = died.content["execution_count"] + 2
    outcome = kernel.run(RERUN)
    assert outcome.status == "ok" and outcome.content["execution_count"] == number
    assert states(outcome) == ["busy", "idle"] and outcome.types.count("execute_input") == 1
    assert ran(outcome) == lost and "printed\n" in outcome.stream(), outcome.stream()
    shown = [m["content"] for m in outcome.messages if m["msg_type"] == "execute_result"]
    assert [one["execution_count"] for one in shown] == [first + 1, first + 2, first + 4]
    after = kernel.run(f"n, Out[{first + 4}], _{first + 2}, In[{first + 4}], In[{number}], len(In)")
    assert after.result == repr(([0, 1, 2], [0, 1, 2, 3], [0, 1, 2], "_ + [3]", "", number + 2)), (
        "each is In and Out of its own number, and the next cell has the next one"
    )
    assert after.content["execution_count"] == number + 1
    assert kernel.run(RERUN).stream().startswith("There is nothing to run again")
    assert kernel.run("n").result == "[0, 1, 2]"


def test_nothing_else_runs_again(kernel, tmp_path):
    """Neither what a commit has, nor what was sent without a number, nor what ran elsewhere, nor the cell that died."""
    kernel.run("kept = ['committed']")
    kernel.settle()
    other = "kept.append('unnumbered')"
    cells = ["kept.append('lost')", other, "%holdfast protect"]
    outcomes, first = crash(kernel, tmp_path, cells, unnumbered=[other])
    assert named(outcomes[-1]) == [first, first + 1]
    assert ran(kernel.run(RERUN)) == [first, first + 1]
    assert kernel.run("kept").result == "['committed', 'lost']"


def test_a_lost_cell_that_the_user_runs_himself(kernel, tmp_path):
    """As by Run All after the crash: it doesn't run once more."""
    cells = ["n = 0", "n += 1", "n += 1", "n += 10"]
    outcomes, first = crash(kernel, tmp_path, cells)
    for code in cells[:2]:
        kernel.run(code)
    outcome = kernel.run(RERUN)
    assert ran(outcome) == [first, first + 3, first + 4]
    assert kernel.run("n").result == "12"


def test_the_first_that_fails_is_the_last_one(kernel, tmp_path):
    there = tmp_path / "there"
    once = f"open({str(there)!r}, 'x').close(); n.append(2)"
    outcomes, first = crash(kernel, tmp_path, ["n = [1]", once, "n.append(3)", "n.append(4)"])
    sent = [kernel.client.execute(code) for code in (RERUN, "'behind it'")]
    failed, behind = map(kernel.finish, sent)
    assert failed.content["ename"] == "FileExistsError" and behind.status == "aborted"
    number = failed.content["execution_count"]
    assert ran(failed) == [first, first + 1, first + 2] and left(failed) == [first + 3, first + 4]
    assert kernel.run("n").result == "[1]"
    outcome = kernel.run(RERUN)
    assert ran(outcome) == [first + 3, first + 4] and outcome.status == "ok"
    assert outcome.content["execution_count"] == number + 2
    assert kernel.run("n").result == "[1, 3, 4]"


def test_one_that_failed_the_first_time_too(kernel, tmp_path):
    """It may have changed something before it failed; the cells behind it ran then, and run now."""
    there = tmp_path / "there"
    other = f"import os\nraise [KeyError, ValueError][os.path.exists({str(there)!r})](1)"
    cells = ["n = [1]", "n.append(2)\n1 / 0", "n.append(3)", other, "n.append(4)"]
    outcomes, first = crash(kernel, tmp_path, cells)
    there.touch()
    failed = kernel.run(RERUN)
    assert failed.content["ename"] == "ValueError", "another error than the first time ends it"
    assert ran(failed) == list(range(first, first + 5)) and left(failed) == [first + 5]
    assert kernel.run("n").result == "[1, 2, 3]"
    sent = [kernel.client.execute(code) for code in (RERUN, "n")]
    outcome, behind = map(kernel.finish, sent)
    assert outcome.status == "ok" and ran(outcome) == [first + 5]
    assert behind.result == "[1, 2, 3, 4]"


def test_a_second_crash(kernel, tmp_path):
    """What ran again and is lost again, and what is left, is named by its error, and runs in the old order."""
    there = tmp_path / "there"
    twice = f"import os\nif os.path.exists({str(there)!r}): os._exit(3)\nopen({str(there)!r}, 'x').close()"
    cells = ["n = [1]", "n.append(2)", twice, "n.append(3)"]
    outcomes, first = crash(kernel, tmp_path, cells)
    waits = kernel.run("'between'")
    again = kernel.run(RERUN)
    assert again.content["ename"] == "CellDied" and not left(again)
    assert ran(again) == list(range(first, first + 4))
    lost = named(again)
    assert lost == sorted({*range(first, first + 3), *lost}) and first + 3 not in lost
    assert first + 4 in lost and waits.status == "ok"
    outcome = kernel.run(RERUN)
    assert outcome.status == "ok" and ran(outcome) == lost
    assert kernel.run("n").result == "[1, 2, 3]"


def test_a_later_crash_is_the_one_that_counts(kernel, tmp_path):
    crash(kernel, tmp_path, ["n = ['old']"])
    kernel.run("n = []")
    kernel.settle()
    outcomes, first = crash(kernel, tmp_path, ["n.append('new')"])
    assert named(outcomes[-1]) == [first, first + 1]
    died = kernel.run(DIE)
    assert died.content["ename"] == "CellDied" and named(died) == [], "it has lost nothing"
    assert ran(kernel.run(RERUN)) == [first, first + 1]
    assert kernel.run("n").result == "['new']"


def test_an_interrupt_keeps_the_rest(kernel, tmp_path):
    there = tmp_path / "there"
    long = f"import os, time\nprint('there')\nif os.path.exists({str(there)!r}): time.sleep(600)"
    outcomes, first = crash(kernel, tmp_path, ["n = [1]", long, "n.append(2)"])
    there.touch()
    sent = kernel.client.execute(RERUN)
    for _ in range(4):  # In[] again, for three cells; what the third prints
        printed(kernel, sent)
    kernel.manager.interrupt_kernel()
    outcome = kernel.finish(sent)
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert left(outcome) == [first + 3]
    assert ran(kernel.run(RERUN)) == [first + 3]
    assert kernel.run("n").result == "[1, 2]"


def test_cells_run_with_the_settings_of_their_time(kernel, tmp_path):
    """Commands decide once: arguments that came later don't change a lost cell."""
    kernel.run("%%scorep_python_binding_arguments\n--noinstrumenter")
    work = "def work(): return 1\nsum(work() for _ in range(99))"
    recorded = f"%%execute_with_scorep --run=in-process\n{work}"
    cells = [recorded, "%%scorep_python_binding_arguments\n", recorded]
    outcomes, first = crash(kernel, tmp_path, cells)
    assert outcomes[0].cost["events"] < 99 < outcomes[2].cost["events"]
    assert named(outcomes[-1]) == [first + 1, first + 3], "a commit came before the first"
    outcome = kernel.run(RERUN)
    assert outcome.status == "ok" and ran(outcome) == named(outcomes[-1])
    events = [int(re.search(r"(\d+) events", one["text/plain"])[1]) for one in outcome.summaries]
    assert events == [outcomes[at].cost["events"] for at in (0, 2)]


def test_an_environment_is_lost_and_set_again(kernel, tmp_path):
    outcomes, first = crash(kernel, tmp_path, ["%%scorep_env\nSCOREP_OF_TEST=7", "n = 1"])
    assert named(outcomes[-1]) == [first, first + 1, first + 2]
    of_test = "import os; os.environ.get('SCOREP_OF_TEST')"
    assert kernel.run(of_test).result is None
    assert ran(kernel.run(RERUN)) == named(outcomes[-1])
    assert kernel.run(of_test).result == "'7'"


def test_a_repeated_cell(kernel, tmp_path):
    head = "%%execute_with_scorep --run=in-process --repeat 3\n"
    outcomes, first = crash(kernel, tmp_path, ["n = 0", head + "n += 1", "m = n"])
    assert named(outcomes[-1]) == [first + 2, first + 3]
    outcome = kernel.run(RERUN)
    assert outcome.status == "ok" and ran(outcome) == named(outcomes[-1])
    assert outcome.summaries[-1]["text/plain"].startswith(f"3 runs of In[{first + 2}]: median")
    assert kernel.run("n, m").result == "(3, 3)"


def test_steps_have_the_number_of_the_command(kernel, tmp_path):
    kernel.run("n = 0")
    kernel.settle()
    crash(kernel, tmp_path, ["n += 1", "n += 1"])
    kernel.settle()
    outcome = kernel.run(RERUN)
    number = outcome.content["execution_count"]
    kernel.settle()
    history = kernel.run("%holdfast history").stream()
    assert re.search(rf" {number} .*\bn\b", history, re.MULTILINE), history
    assert kernel.run("n").result == "2"
    assert kernel.run("%holdfast undo").status == "ok"
    assert kernel.run("n").result == "0"


def test_the_state_of_a_fork(lend, tmp_path):
    """What the fork has isn't lost, and doesn't run again."""
    kernel = lend()
    kernel.settle()
    cells = [f"n.append({i}); time.sleep({0.6 if i < 2 else 0})" for i in range(6)]
    outcomes, first = crash(kernel, tmp_path, ["n = []", *cells])
    lost = named(outcomes[-1])
    assert lost and first not in lost
    assert kernel.run("len(n)").result == str(len(cells) - len(lost))
    outcome = kernel.run(RERUN)
    assert outcome.status == "ok" and ran(outcome) == lost
    assert kernel.run("n").result == str(list(range(len(cells))))


@pytest.mark.parametrize("code", [f"{RERUN}\nx = 1", f"if True:\n    {RERUN}", f"{RERUN} 3"])
def test_where_it_has_no_effect(kernel, code):
    outcome = kernel.run(code)
    text = outcome.stream("stderr")
    assert "UsageError" in text and "rerun" in text, outcome.content


@pytest.mark.fresh
def test_in_another_language(start_kernel, tmp_path):
    source, target = "examples/kernel_smallest/calculator.c", tmp_path / "calculator"
    spec = kernel_programs.spec(kernel_programs.compiled(source, target))
    kernel = start_kernel(spec=spec, env={"HOLDFAST_PROTECT": "never"})
    with kernel_programs.saved(kernel):
        kernel.run("x = 1")
    cells = ["x = x + 1\nprint x", "x = x * 10\nx"]
    outcomes, first = crash(kernel, tmp_path, cells, dying="crash", wait="sleep 2")
    assert named(outcomes[-1]) == [first, first + 1, first + 2]
    assert kernel.run("x").result == "1"
    outcome = kernel.run(RERUN)
    assert outcome.status == "ok", outcome.content
    assert ran(outcome) == [first, first + 1, first + 2] and "2\n" in outcome.stream()
    assert outcome.content["execution_count"] == first + 5
    assert kernel.run("x").result == "20"
    assert kernel.run(RERUN).stream().startswith("There is nothing to run again")
    assert kernel.run("%holdfast rerun 3").content["ename"] == "UsageError"
