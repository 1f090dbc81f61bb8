"""A view names the recorder's flushes if they took a part of the time that matters."""

import types
from pathlib import Path

import pytest
from holdfast.views import traces


def notes(**seconds):
    rows = [{"name": name.replace("_", " "), "exclusive": took} for name, took in seconds.items()]
    found = {"rows": [], "regions": {"name": [row["name"] for row in rows]}}
    trace = types.SimpleNamespace(
        path=Path("run/traces.otf2"),
        read=lambda: types.SimpleNamespace(found=found),
        table=lambda: rows,
    )
    return [note for note in traces.Trace._notes(trace) if "memory was full" in note]


@pytest.mark.parametrize("took, count", [(0.0, 0), (0.001, 0), (0.018, 0), (0.03, 1), (2.0, 1)])
def test_two_per_cent(took, count):
    assert len(notes(work=1.0, BUFFER_FLUSH=took)) == count
    assert not notes(work=1.0)
