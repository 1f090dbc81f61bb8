"""What a recorded cell's line says that recording took."""

import re

import pytest
from holdfast.worker import event_cost


def test_the_mean_of_rounds_counts():
    """One round in several takes new pages of the log: the best one isn't what a cell pays."""
    probe = {"DEPTH": 10}
    exec(event_cost._PROBE, probe)
    times = [0.0]
    rounds = iter([9.0, 1.0, 1.0, 4.0, 2.0])  # the first is for warming up

    def work(calls):
        times[0] += next(rounds)

    assert probe["mean"](work, 4, 3000, lambda: times[0]) == 2.0


def test_its_share_is_one_of_processor_time(shared_in_process_kernel):
    outcome = shared_in_process_kernel.run(
        "%%execute_with_scorep\nimport time\ndef f(): pass\n"
        "for _ in range(300_000): f()\ntime.sleep(0.5)"
    )
    assert outcome.status == "ok"
    text = outcome.summaries[-1]["text/plain"]
    share = float(re.search(r"recording took [^(]*\(([0-9.]+) %\)", text)[1])
    cost = outcome.cost
    assert share == pytest.approx(100 * cost["recorder_ms"] / cost["cpu_ms"], abs=0.06)
    assert cost["cpu_ms"] < 0.9 * cost["run_ms"]
