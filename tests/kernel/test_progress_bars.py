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


@pytest.mark.parametrize("run", HEADS)
def test_the_bar_that_it_replaces_is_not_drawn_again(shared_kernel, run):
    pytest.importorskip("tqdm")
    make = "tqdm(total=3, file=sys.stdout, bar_format='{n}/{total}', mininterval=0)"
    assert shared_kernel.run(f"import sys\nfrom tqdm import tqdm\nbar = {make}").status == "ok"
    outcome = shared_kernel.run(HEADS[run] + "bar.update(1);")
    shown, *_ = outcome.stream("stdout").partition("Instrumentation")
    assert (outcome.status, shown, outcome.stream("stdout").count("/3")) == ("ok", "\r1/3", 1)
    assert shared_kernel.run("bar.close()").stream("stdout") == "\r1/3\n"
