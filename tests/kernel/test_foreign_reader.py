"""A program in C reads the arrays of a notebook that runs, by holdfast/array.h, and lives on after it."""

import os

import pytest
from foreign_reader import Reader, build

if not os.environ.get("HOLDFAST_BUILD"):
    pytest.skip("HOLDFAST_BUILD isn't set", allow_module_level=True)

MADE = """
import numpy as np, pandas as pd
table = np.arange(1_000_000.0).reshape(1000, 1000)
part = table[::2]
frame = pd.DataFrame({"a": np.arange(50_000.0), "b": range(50_000)})
"""
TOTAL = 1_000_000 * 999_999 // 2


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)


@pytest.mark.fresh
def test_a_notebooks_arrays_are_mapped_and_kept(start_kernel, tmp_path):
    kernel = start_kernel()
    ok(kernel, MADE)
    ok(kernel, "%%isolated\npass")
    reader = Reader(build(tmp_path))
    name = "/" + kernel.segment().name
    assert reader("open", name) == name
    half = sum(1000 * 1000 * row + 999 * 500 for row in range(0, 1000, 2))
    assert reader("of", "part") == f"<f8[] (500 1000) {half:.17g}"
    assert reader("private").split()[1] == "0"
    assert reader("of", "frame", "a") == f"<f8[] (50000) {50_000 * 49_999 // 2}"
    assert reader("private").split()[1] == "0"
    assert reader("of", "table") == f"<f8[] (1000 1000) {TOTAL}"
    ok(kernel, "%%isolated\ntable[:] = 1")
    assert reader("again") == f"<f8[] (1000 1000) {TOTAL}"
    kernel.close()
    assert reader("again") == f"<f8[] (1000 1000) {TOTAL}"
    resident, copied = map(int, reader("private").split())
    assert resident >= 7800 and copied == 0
    assert reader.close() == 0
