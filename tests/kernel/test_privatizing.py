"""Whatever the notebook writes between a commit and the privatize of what it committed is kept."""

import ast

import effort
import pytest

ISOLATED = "%%execute_with_scorep --run=isolated\n"
ROUNDS = effort.examples(8)
ROWS = 300  # of a page each: few of them change between two commits

# Each writer adds one to its rows in turn and counts that in a list.
BEGIN = f"""
import asyncio, itertools, signal
import numpy as np
rows = {{name: np.zeros(({ROWS}, 512)) for name in ("task", "timer")}}
written = {{name: [0] * {ROWS} for name in rows}}
places = {{name: itertools.cycle(range({ROWS})) for name in rows}}

def write(name):
    place = next(places[name])
    rows[name][place] += 1
    written[name][place] += 1

async def beat():
    while True:
        write("task")
        await asyncio.sleep(0)

def lost():
    return {{
        name: sum(int((rows[name][place] != count).sum()) for place, count in enumerate(counts))
        for name, counts in written.items()
    }}
"""
WRITERS = {
    "task": (
        "task = asyncio.get_running_loop().create_task(beat())",
        "_ = task.cancel()",
    ),
    "timer": (
        "_ = signal.signal(signal.SIGALRM, lambda *_: write('timer'))\n"
        "_ = signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)",
        "_ = signal.setitimer(signal.ITIMER_REAL, 0)",
    ),
}


@pytest.mark.parametrize("writer", effort.core(WRITERS, ["timer"]))
def test_no_element_is_lost(kernel, writer):
    begin, end = WRITERS[writer]
    assert kernel.run(BEGIN).status == "ok"
    kernel.settle()  # the arrays are committed, and mapped privately
    assert kernel.run(begin).status == "ok"
    for turn in range(ROUNDS):
        assert kernel.run(ISOLATED + f"seen = float(rows[{writer!r}].sum())").status == "ok"
        if turn % 2:
            kernel.settle()
        else:
            assert kernel.run(f"rows[{writer!r}].sum()").status == "ok"
    assert kernel.run(end).status == "ok"
    outcome = kernel.run("[lost(), {name: sum(n) for name, n in written.items()}]")
    lost, written = ast.literal_eval(outcome.result)
    assert written[writer] > ROUNDS, written  # it wrote all the while
    assert lost == {"task": 0, "timer": 0}, written
    # What was committed is what is there.
    outcome = kernel.run(ISOLATED + "lost()")
    assert ast.literal_eval(outcome.result) == {"task": 0, "timer": 0}


# The first privatizes fail.
REFUSES = """
def _refuse(times):
    import sys
    from holdfast.worker.rollback import Rollback
    is_alone, left = Rollback.is_alone, [times]

    def refuses(rollback):
        if sys._getframe(1).f_code.co_name == "privatize" and left[0]:
            left[0] -= 1
            raise OSError("no more mappings")
        return is_alone(rollback)

    Rollback.is_alone = refuses
_refuse(TIMES); del _refuse
"""


@pytest.mark.fresh
def test_no_cell_runs_over_what_could_not_be_privatized(kernel):
    kernel.run("import numpy as np; rows = np.zeros((64, 512))")
    kernel.settle()
    kernel.run("rows = np.ones((64, 512))" + REFUSES.replace("TIMES", "2"))
    assert (
        kernel.run(ISOLATED + "float(rows.sum())").result == "32768.0"
    )  # the privatization fails meanwhile
    outcome = kernel.run("rows[0] = 5")
    assert outcome.content["ename"] == "OSError" and "no more mappings" in outcome.content["evalue"]
    assert kernel.run("float(rows[0, 0])").result == "1.0"  # the third privatize doesn't fail
    outcome = kernel.run(ISOLATED + "float(rows.sum())")
    assert outcome.result == "32768.0", outcome.content
