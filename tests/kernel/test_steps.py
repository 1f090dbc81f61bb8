"""The steps that %holdfast undo goes back by: which cells make one."""

import pytest

RECORDED = "%%execute_with_scorep\n"


def undo(kernel):
    outcome = kernel.run("%holdfast undo")
    assert outcome.status == "ok", outcome.content
    return outcome.stream()


@pytest.mark.parametrize("head", [RECORDED, "%%isolated\n"])
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
    for code in ("import warnings; x = 1", "x = 2; warnings.warn('seen')", "print('nothing')"):
        assert shared_kernel.run(code).status == "ok"
        shared_kernel.settle()
    assert undo(shared_kernel).startswith("Cell ")
    assert shared_kernel.run("x").result == "1"
