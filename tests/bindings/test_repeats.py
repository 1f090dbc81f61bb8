"""Sets of runs beside each other: what may be called faster."""

import itertools
import math
import os
import re
import subprocess
import sys

import pytest

from holdfast.views import comparison, repeats

pytest.importorskip("holdfast._views")
from holdfast import views  # noqa: E402
from holdfast.views import command, runs, texts, traces  # noqa: E402


def test_chance_is_that_of_all_orders():
    for n, m in itertools.product(range(1, 5), repeat=2):
        orders = list(itertools.combinations(range(n + m), n))
        apart = [one for one in orders if max(one) < n or min(one) >= m]
        assert repeats.chance(n, m) == pytest.approx(min(1, len(set(apart)) / len(orders)))


@pytest.mark.parametrize(
    ("now", "before", "word"),
    [
        ([1.0, 1.1, 1.2, 1.3], [1.4, 1.5, 1.6, 1.7], "faster"),
        ([1.4, 1.5, 1.6, 1.7], [1.0, 1.1, 1.2, 1.3], "slower"),
        ([1.0, 1.1, 1.2, 1.5], [1.4, 1.5, 1.6, 1.7], "within the noise"),
        ([1.0, 1.1, 1.2, 1.4], [1.4, 1.5, 1.6, 1.7], "within the noise"),
        ([1.0, 1.1, 1.2], [1.4, 1.5, 1.6], "too few runs"),
        ([1.0, 1.1, 1.2], [1.4, 1.5, 1.6, 1.7, 1.8], "faster"),
        ([1.0], [2.0], "too few runs"),
        ([1.0] * 4, [0.0] * 4, "new"),
        ([0.0] * 4, [1.0] * 4, "gone"),
    ],
)
def test_a_difference_is_one_beyond_the_noise(now, before, word):
    assert repeats.outcome(now, before) == word


def test_functions_are_found_again_by_what_they_are_called():
    mine = [
        ("cell In[8]", "In[8]", 1),
        ("__main__:f", "In[7]", 3),  # edited, in another cell
        ("__main__:g", "own.py", 12),  # below an edit
        ("__main__:<lambda>", "In[8]", 2),
        ("__main__:<lambda>", "In[8]", 4),
        ("json:dumps", "json.py", 5),
        ("__main__:twice", "own.py", 1),
        ("__main__:twice", "own.py", 9),
    ]
    theirs = [
        ("cell In[4]", "In[4]", 1),
        ("__main__:f", "In[2]", 1),
        ("__main__:g", "own.py", 10),
        ("__main__:<lambda>", "In[4]", 9),
        ("__main__:<lambda>", "In[4]", 8),
        ("json:dumps", "json.py", 5),
        ("__main__:twice", "own.py", 2),
        ("json:loads", "json.py", 8),
    ]
    same = comparison.matched(mine, theirs)
    assert [same.get(one) for one in theirs] == [*mine[:3], mine[4], mine[3], mine[5], None, None]


def test_the_recorders_own_time_is_no_difference_of_the_program(monkeypatch):
    class Run:
        def __init__(self, flush, work):
            times = {"BUFFER FLUSH": flush, "__main__:work": work}
            self.rows = [
                {"name": name, "file": "", "line": 0, "exclusive": took}
                for name, took in times.items()
            ]
            self.title, self.run = "cell In[1]", {"cost": {"run_ms": 1e3 * work}}

        def table(self):
            return self.rows

        def read(self):
            return traces.Read({}, 0, 0, 1, None)

    now, before = [Run(2, 2)] * 4, [Run(1, 1)] * 4
    rows = repeats.compare(now, before)["functions"]
    assert {row["name"]: row["outcome"] for row in rows} == {
        "BUFFER FLUSH": "the recorder's own",
        "__main__:work": "slower",
    }
    alone = repeats.compare(now, [])
    assert alone["runs"] == [4] and "before" not in alone["functions"][0]
    assert alone["statement"] == "2.00 s (2.00 s to 2.00 s, 4 runs)."


def test_statements_say_faster_only_where_it_is():
    apart = repeats.statement([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3])
    assert "Faster: -46.5 %" in apart and "once in 35 cases" in apart
    assert math.comb(8, 4) // 2 == 35
    assert apart.startswith(
        "1.15 s (1.00 s to 1.30 s, 4 runs) now, 2.15 s (2.00 s to 2.30 s, 4 runs)"
    )
    for now, before, words in (
        ([1.0], [2.0], "The noise is unknown"),
        ([1.0], [2.0, 2.1, 2.2, 2.3], "The noise is unknown"),
        ([1.0, 1.1], [2.0, 2.1], "Too few runs"),
        ([1.0, 1.1, 1.2, 2.1], [2.0, 2.1, 2.2, 2.3], "The ranges overlap"),
    ):
        said = repeats.statement(now, before)
        assert words in said and "Faster:" not in said and "Slower:" not in said


PROGRAM = """
import os
def work(n):
    return sum(range(n))
def extra():
    return sum(range(1000))
size = int(os.environ["SIZE"])
for _ in range(5): work(size)
if size > 100: extra()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Directories: four runs with little work, four with much."""
    folder = tmp_path_factory.mktemp("repeats")
    (folder / "script.py").write_text(PROGRAM)
    found = {"100": [], "1000000": []}
    for size, places in found.items():
        for at in range(4):
            place = folder / f"run-{size}-{at}"
            environment = {**os.environ, "SCOREP_EXPERIMENT_DIRECTORY": str(place), "SIZE": size}
            subprocess.run(
                [sys.executable, "-m", "holdfast.scorep", "script.py"],
                cwd=folder,
                env=environment,
                check=True,
                timeout=60,
            )
            places.append(str(place))
    return found


def test_recordings_are_compared_by_function(recorded):
    few, many = recorded["100"], recorded["1000000"]
    trace = views.trace(",".join(many), before=",".join(few), view="compare")
    found = trace.repeats()
    assert found["runs"] == [4, 4]
    rows = {row["name"]: row for row in found["functions"]}
    work = rows["__main__:work"]
    assert work["outcome"] == "slower" and work["line"] == 3
    assert work["now"]["low"] <= work["now"]["median"] <= work["now"]["high"]
    assert work["now"]["low"] > work["before"]["high"]
    assert rows["__main__:extra"]["outcome"] == "new"
    one = [row for row in traces.Trace(many[2]).table() if row["name"] == "__main__:work"]
    assert work["now"]["low"] <= one[0]["exclusive"] <= work["now"]["high"]
    turned = views.trace(",".join(few), before=",".join(many), view="compare").repeats()
    rows = {row["name"]: row for row in turned["functions"]}
    assert rows["__main__:work"]["outcome"] == "faster"
    assert rows["__main__:extra"]["outcome"] == "gone"
    assert trace.data()["repeats"] == found
    text = texts.compared(trace)
    assert "4 runs) now" in text and "\n__main__:work " in text and " slower" in text


def test_a_single_run_has_no_noise_to_be_compared_with(recorded):
    few, many = recorded["100"], recorded["1000000"]
    trace = runs.compared(many[0], few[0])
    assert texts.compared(trace).endswith(repeats.UNKNOWN)
    assert not re.search(r"\d+-\d+", repeats.UNKNOWN), "no cells that aren't there"
    assert {row["outcome"] for row in trace.repeats()["functions"]} <= {
        "too few runs",
        "new",
        "gone",
    }
    with pytest.raises(traces.ViewError, match="there is no trace"):
        runs.compared(many[0] + ",nowhere", few[0])


def test_a_range_is_no_whole_recording(recorded, capsys):
    few, many = recorded["100"], recorded["1000000"]
    command.run(f"{many[0]} {few[0]} --view compare --range 0:1", print)
    assert "--range can't be used with it" in capsys.readouterr().err
