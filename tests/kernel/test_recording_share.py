"""What a recorded cell's line says that recording took."""

import re

import pytest


def test_what_lines_take_is_in_it(shared_in_process_kernel):
    """The calls that the sampler notices, in this process, and its own processor time."""
    outcome = shared_in_process_kernel.run(
        "%%execute_with_scorep --lines\n"
        "from holdfast.scorep import lines\n"
        "from holdfast.worker.event_cost import Counted, event_cost\n"
        "end, of, seen = lines.end, event_cost.of, []\n"
        "lines.end = lambda: seen.append(end()) or seen[0]\n"
        "event_cost.of = lambda counted: seen.append(counted) or of(counted)\n"
        "def f(): pass\n"
        "for _ in range(3000): f()"
    )
    assert outcome.status == "ok"
    shown = shared_in_process_kernel.run(
        "lines.end = end; del event_cost.of; (calls, seconds), counted = seen\n"
        "print(calls > 3000, counted.line_calls == calls, counted.flat > 6000, seconds > 0,"
        " 1e3 * (of(counted) + seconds))"
    )
    *known, ms = shown.stream().split()
    assert known == ["True"] * 4
    assert outcome.cost["recorder_ms"] == pytest.approx(float(ms), rel=0.01)


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


def test_without_an_event_there_is_no_share(shared_in_process_kernel):
    """And it isn't called unknown."""
    kernel = shared_in_process_kernel
    kernel.run("%%scorep_python_binding_arguments\n--noinstrumenter")
    text = kernel.run("%%execute_with_scorep\n1").summaries[-1]["text/plain"]
    kernel.run("%%scorep_python_binding_arguments\n")
    assert "; 0 events; in " in text
