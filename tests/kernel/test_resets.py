"""`%reset` and its like in a cell that runs in another process: the notebook forgets what the cell has."""

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


@pytest.mark.parametrize("run", HEADS)
@pytest.mark.parametrize("what", WHAT)
def test_the_notebook_forgets_it(shared_kernel, run, what):
    code, question, result = WHAT[what]
    number = shared_kernel.run("x = 1; [x]").content["execution_count"]
    outcome = shared_kernel.run(HEADS[run] + code.format(number))
    assert outcome.status == "ok" and outcome.stream("stderr") == ""
    assert shared_kernel.run(question.replace("{}", str(number))).result == result.format(run)
