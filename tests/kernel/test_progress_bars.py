"""A progress bar of tqdm's goes on in a cell in another process."""

import pytest

HEADS = {run: f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated")}


@pytest.mark.parametrize("run", HEADS)
def test_it_goes_on(shared_kernel, run):
    pytest.importorskip("tqdm")
    assert shared_kernel.run("from tqdm import tqdm\nbar = tqdm(total=3)").status == "ok"
    outcome = shared_kernel.run(HEADS[run] + "bar.update(1); bar.n")
    assert outcome.status == "ok" and outcome.result == "1"
    assert "holdfast" not in outcome.stream("stderr")
    assert shared_kernel.run("bar.update(1); bar.n").result == "2"
