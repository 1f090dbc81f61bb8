"""Memory of arrays that were freed: it is given back, it is in no figure, and the switch that has none."""

import os
import re

import pytest
from waiting import until

from holdfast.store import Session

MIB = 1 << 20
SIZE = 64 * MIB
MADE_AND_DROPPED = f"""
import numpy as np
def work():
    return float(np.ones({SIZE} // 8)[-1])
assert work() == 1
"""
RESIDENT = """
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
"""
CELL = "%%execute_with_scorep --run={}\n"


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


def allocated(kernel):
    return os.stat(kernel.segment()).st_blocks * 512


def test_it_is_given_back_while_the_notebook_waits_and_while_a_cell_runs(kernel):
    ok(kernel, RESIDENT + MADE_AND_DROPPED)
    # At a cell's end it is in no page tables.
    before = int(ok(kernel, "resident()").result)
    until(lambda: allocated(kernel) < SIZE, lambda: allocated(kernel))
    wait = "\nimport time\nwhile resident() > before + most: time.sleep(0.01)\n"
    # In the middle of a cell; for ever if it isn't given back.
    ok(
        kernel,
        f"before, most = {before}, {SIZE // 4}\nwork()\nassert resident() > before + most" + wait,
    )
    until(lambda: allocated(kernel) < SIZE, lambda: allocated(kernel))
    assert ok(kernel, "work()").result == "1.0"


def row_of_table(kernel):
    """What `%holdfast memory` says of the last recorded cell: bytes at its begin, peak, growth."""
    text = "".join(str(one) for one in ok(kernel, "%holdfast memory").everything)
    row = re.findall(r"\[\d+\] +instrumented +[\d.]+ +(.*?)\\n", text)[-1]
    units = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
    return [
        float(number) * units[unit] for number, unit in re.findall(r"([-+]?[\d.]+) (\w+)", row)[:3]
    ]


@pytest.mark.parametrize("mode", ["in-process", "isolated"])
def test_it_is_in_no_figure(kernel, mode):
    """And the line has the same peak and growth as `%holdfast memory`."""
    for _ in range(2):  # the second finds what the first has freed, or what is made ready
        cost = ok(kernel, CELL.format(mode) + MADE_AND_DROPPED).cost
    assert SIZE < cost["bytes_peak"] and cost["bytes_grown"] < SIZE / 4, cost
    begin, peak, grown = row_of_table(kernel)
    assert abs(peak - cost["bytes_peak"]) < MIB and abs(grown - cost["bytes_grown"]) < MIB
    assert begin < cost["bytes_peak"] - SIZE + 4 * MIB


def test_what_is_made_ready_and_not_used_is_no_use(kernel):
    """A clean process gets memory ready for what the code took the last time."""
    code = f"import os, numpy as np\nif not os.path.exists(place): one = np.ones({SIZE} // 8)"
    ok(kernel, "import tempfile\nplace = tempfile.mktemp()")
    first = ok(kernel, CELL.format("isolated") + code).cost
    assert first["bytes_grown"] > SIZE - MIB
    ok(kernel, "del one\nopen(place, 'w').close()")
    second = ok(kernel, CELL.format("isolated") + code)
    ok(kernel, "os.remove(place)")
    assert second.cost["bytes_preallocated"] >= SIZE
    assert second.cost["bytes_peak"] < first["bytes_peak"] - SIZE / 2
    assert abs(second.cost["bytes_grown"]) < SIZE / 4


def test_without_recycling_arrays_are_in_the_processs_own_memory(start_kernel):
    kernel = start_kernel(env={"HOLDFAST_RECYCLE": "0"})
    ok(kernel, RESIDENT + "before = resident()" + MADE_AND_DROPPED)
    assert ok(kernel, f"work()\nresident() < before + {SIZE // 2}").result == "True"
    ok(kernel, f"kept = np.ones({SIZE} // 8)")
    ok(
        kernel,
        CELL.format("isolated")
        + f"kept += 1\nother = np.full({SIZE} // 8, 3.0)\nassert resident() > {SIZE}",
    )
    assert ok(kernel, "float(kept[-1] + other[-1])").result == "5.0"
    with Session.open("/" + kernel.segment().name) as session:
        assert session.info()["reserved_bytes"] < SIZE // 4


@pytest.mark.fresh
def test_clean_processes_leave_no_more_than_twice_what_they_took(kernel):
    """What they freed, what the history keeps and what is prepared for the next cell, all together."""
    ok(kernel, "import numpy as np")
    code = CELL.format("isolated") + "a = np.full(48 << 17, {}.0); b = a * 2; c = a + b; del c"
    peak = max(ok(kernel, code.format(i)).cost["bytes_peak"] for i in range(6))
    assert allocated(kernel) <= 2 * peak + 64 * MIB
    ok(kernel, "%holdfast undo")
    assert ok(kernel, "float(a[0])").result == "4.0"
