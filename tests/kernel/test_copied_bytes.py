"""What a cell copies: the pages that it writes to, however large the state is."""

import os

import pytest

CELL = "%%execute_with_scorep\n"
CLEAN = "%%execute_with_scorep --run=isolated\n"
PAGE = os.sysconf("SC_PAGE_SIZE")


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


@pytest.mark.fresh
def test_a_touched_element_costs_pages(kernel):
    ok(kernel, "import numpy as np\na = np.ones(1 << 22)")  # 32 MiB
    ok(kernel, CLEAN + "a[0]")
    ok(kernel, CLEAN + "pass")
    # The process's state: NumPy's old generator is in it, which NumPy 1 always imports.
    state = ok(kernel, CLEAN + "pass").cost["bytes_copied"]
    assert state <= 6 * PAGE
    for head in (CLEAN, CLEAN):
        outcome = ok(kernel, head + "a[len(a) // 2] += 1")
        assert outcome.cost["run"] == "isolated"
        assert outcome.cost["bytes_mapped"] == 8 << 22
        assert PAGE <= outcome.cost["bytes_copied"] <= state + 2 * PAGE
        assert outcome.cost["copy_faults"] == 1
    outcome = ok(kernel, CLEAN + "a[5]")
    assert outcome.cost["bytes_copied"] <= state + PAGE and outcome.cost["copy_faults"] == 0
    assert (
        ok(kernel, "float(a[len(a) // 2]), float(a.sum())").result
        == f"(3.0, {float((1 << 22) + 2)})"
    )


@pytest.mark.fresh
def test_what_is_born_in_a_cell_is_not_copied(kernel):
    ok(kernel, "import numpy as np")
    outcome = ok(kernel, CLEAN + "made = np.full(1 << 22, 7.0)")
    assert outcome.cost["bytes_copied"] <= 8 * PAGE
    outcome = ok(kernel, CLEAN + "float(made[-1])")
    assert outcome.cost["bytes_mapped"] == 8 << 22 and outcome.cost["bytes_copied"] <= 8 * PAGE


def test_the_cost_does_not_grow_with_the_state(kernel):
    copied = []
    ok(kernel, "import numpy as np")
    for size in (1 << 20, 1 << 24, 1 << 26):
        ok(kernel, f"a = np.ones({size} // 8)")
        ok(kernel, CELL + "a[3] += 1")
        copied.append(ok(kernel, CELL + "a[3] += 1").cost["bytes_copied"])
    assert max(copied) - min(copied) <= 2 * PAGE, copied
