"""`%reset` and its like in a cell that runs in another process: the notebook forgets what the cell has."""

import effort
import pytest

HEADS = {run: f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated")}
WHAT = {
    "out": ("%reset -f out", "sorted(Out), _, __, x", "([], '', '', 1)"),
    "all": ("%reset -f", "sorted(Out), {'_', 'x'} & globals().keys()", "([], set())"),
    "in": (
        "%reset -f in",
        "any(In[:-1]), _i, _ii[:2], x",
        "(False, '%%execute_with_scorep --run={}\\n%reset -f in', '', 1)",
    ),
    "entry": ("Out.pop({})", "{} in Out, x", "(False, 1)"),
    "input": ("In[{}] = 'changed'", "In[{}], x", "('changed', 1)"),
}


@pytest.mark.parametrize(("what", "run"), effort.in_turn(WHAT, HEADS))
def test_the_notebook_forgets_it(shared_kernel, run, what):
    code, question, result = WHAT[what]
    number = shared_kernel.run("x = 1; [x]").content["execution_count"]
    outcome = shared_kernel.run(HEADS[run] + code.format(number))
    assert outcome.status == "ok" and outcome.stream("stderr") == ""
    assert shared_kernel.run(question.replace("{}", str(number))).result == result.format(run)


def test_what_was_taken_out_stays_out_in_later_processes(shared_kernel):
    """Taken out by a plain cell or in a clean process, and seen through a cell that doesn't look."""
    clean = HEADS["isolated"]
    first = shared_kernel.run("1000").content["execution_count"]
    second = shared_kernel.run("2000").content["execution_count"]
    look = f"print({first} in Out, {second} in Out, _{first}, _)"
    shared_kernel.run(f"del Out[{first}], Out[{second}]")
    for cell in (clean + look, look, clean + "x = 1", look, clean + look):
        outcome = shared_kernel.run(cell)
        said = outcome.stream("stdout").partition("Instrumentation")[0].strip()
        assert outcome.stream("stderr") == "" and said in (
            "",
            "False False 1000 2000",
        ), cell
    third = shared_kernel.run("3000").content["execution_count"]
    shared_kernel.run(f"{clean}del Out[{third}]")
    outcome = shared_kernel.run(f"{clean}print({first} in Out, {third} in Out, _)")
    assert outcome.stream("stdout").startswith("False False 3000")
