"""A recorded cell that runs several times in turn: its numbers, traces and replies, and what is left of it."""

import re

import effort
import pytest
from waiting import printed

pytest.importorskip("holdfast._views")

HEAD = "%%execute_with_scorep --repeat 3"
SET_UP = "n = 0\ndef work(k):\n    return sum(range(k))"
TIME = r"[\d.]+ m?s"
LINE = rf"(\d) runs of In\[(\d+)\]: median {TIME}, from {TIME} to {TIME}"


def numbers(outcome):
    """The execution counts that a client saw of one request."""
    inputs = [m for m in outcome.messages if m["msg_type"] == "execute_input"]
    return [m["content"]["execution_count"] for m in inputs]


def states(outcome):
    found = [m for m in outcome.messages if m["msg_type"] == "status"]
    return [m["content"]["execution_state"] for m in found]


def line(outcome):
    """The line below the last run, if it is of several."""
    return re.fullmatch(LINE, outcome.summaries[-1]["text/plain"])


@pytest.mark.parametrize(
    "run", effort.core(["in-process", "forked", "isolated"], ["in-process", "forked"])
)
def test_each_run_is_one_of_the_list(kernel, run):
    kernel.run(SET_UP)
    number = kernel.before + 2
    outcome = kernel.run(f"{HEAD} --run={run}\nn += 1\nwork(1000)\nprint('run', n)\nn * 10")
    assert outcome.status == "ok" and outcome.content["execution_count"] == number
    assert numbers(outcome) == [number], "the prompt stays"
    assert states(outcome) == ["busy", "idle"], "one request, with one reply"
    assert re.findall(r"run (\d)", outcome.stream()) == ["1", "2", "3"]
    assert outcome.stream().count("Instrumentation results can be found in") == 1
    assert len(outcome.summaries) == 1 and line(outcome).groups() == ("3", str(number))
    assert f"%trace {number} --view compare" in outcome.summaries[-1]["text/html"]
    text = kernel.run(f"n, Out[{number}], _, len(In), In[-2][-6:], _i{number}[-6:]").result
    assert text == repr((3, 30, 30, number + 2, "n * 10", "n * 10")), "as if run three times"
    text = kernel.run(f"%trace {number} --text").stream()
    assert text.startswith(f"cell In[{number}]\n") and "__main__:work" in text
    for command in ("%trace --view compare --text", f"%trace {number} --view compare --text"):
        text = kernel.run(command).stream()
        head = rf"3 runs of cell In\[{number}\]: {TIME} \({TIME} to {TIME}, 3 runs\)\.\n"
        assert re.match(head, text)
        assert re.search(rf"\n__main__:work +([\d.]+ +){{3}}In\[{number - 1}\]:2", text)


@pytest.mark.parametrize("run", effort.core(["in-process", "forked", "isolated"], ["isolated"]))
def test_all_runs_are_one_step(kernel, run):
    for code in ("n = 0; m = []", "k = 1"):
        kernel.run(code)
        kernel.settle()
    outcome = kernel.run(f"{HEAD} --run={run}\nn += 1\nif n == 3: m.append(n)")
    assert outcome.status == "ok"
    number = outcome.content["execution_count"]
    said = kernel.run("%holdfast undo").stream()
    assert said.startswith(f"Cell {number} is undone: ") and "Changed: m, n." in said, said
    assert kernel.run("n, m, k").result == "(0, [], 1)"
    assert kernel.run("%holdfast undo").stream().startswith(f"Cell {number - 1} is undone: ")


def test_an_error_ends_the_runs(kernel):
    kernel.run("n = 0")
    outcome = kernel.run(HEAD + "\nn += 1\nif n == 2: raise ValueError(n)")
    assert outcome.status == "error" and outcome.content["ename"] == "ValueError"
    first = kernel.before + 2
    assert numbers(outcome) == [first] and line(outcome) is None
    assert len(outcome.summaries) == 1, "the run that failed has its own line"
    assert states(outcome) == ["busy", "idle"]
    assert kernel.run("n").result == "2"
    assert kernel.run(f"%trace {first} --text").stream().startswith(f"cell In[{first}]")


def test_a_run_that_dies_is_the_last_one(lend):
    kernel = lend(HOLDFAST_PROTECT="always")  # else the run before may be lost, too, and named
    kernel.run("n = 0")
    outcome = kernel.run(
        HEAD + "\nimport os, signal\nn += 1\nif n == 2: os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert outcome.content["ename"] == "CellDied" and numbers(outcome) == [kernel.before + 2]
    assert kernel.run("n").result == "1", "the run before is done, and this one is rolled back"


def test_an_interrupt_ends_all_runs(kernel):
    message = kernel.client.execute(
        HEAD + "\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"
    )
    printed(kernel, message)
    kernel.control("interrupt_request")
    outcome = kernel.finish(message)
    assert outcome.content["ename"] == "KeyboardInterrupt"
    assert numbers(outcome) == [], "no run follows the one whose number was seen"


def test_other_cells_wait_for_the_last_run(kernel):
    kernel.run("n = 0")
    first = kernel.client.execute(HEAD + "\nn += 1")
    second = kernel.client.execute("n")
    assert kernel.finish(first).content["execution_count"] == kernel.before + 2
    outcome = kernel.finish(second)
    assert outcome.result == "3" and outcome.content["execution_count"] == kernel.before + 3


@pytest.mark.fresh
def test_two_sets_before_and_after_an_edit(kernel):
    kernel.run(SET_UP)
    head = "%%execute_with_scorep --repeat 4"
    kernel.run(f"{head}\nwork(2_000_000)")
    kernel.run("# faster\ndef work(k):\n    return k * (k - 1) // 2")
    kernel.run(f"{head} --run=in-process\nwork(2_000_000)")
    text = kernel.run("%trace 4 2 --view compare --text").stream()
    head, *rows = text.splitlines()
    assert head.startswith("4 runs of cell In[4], compared with 4 runs of cell In[2]: ")
    (work,) = [row for row in rows if row.startswith("__main__:work")]
    assert work.endswith("faster"), "one function, though it was edited and stands in another cell"
    text = kernel.run("%trace 2-4 --view compare --text").stream()
    assert text.startswith("cells In[2] to In[4]: "), "cells that differ in the magic line alone"
