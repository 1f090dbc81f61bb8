"""State of libraries that a process can be asked for (library_rows.py): read, set, and read again."""

import importlib

import pytest

from holdfast.worker.settings.library_rows import LIBRARY_ROWS
from holdfast.worker.settings.rows import ROWS, read


@pytest.mark.parametrize("name", LIBRARY_ROWS)
def test_a_row_is_one_of_all(name):
    assert ROWS[name][:3] == LIBRARY_ROWS[name][:3]


@pytest.mark.parametrize(
    "name, code",
    [
        ("Polars' formats of numbers", "import polars as it; it.Config.set_float_precision(2)"),
        ("SciPy's errors of special functions", "import scipy.special as it; it.seterr(loss='warn')"),
        ("SymPy's generator of random numbers", "import sympy.core.random as it; it.seed(4)"),
    ],
)  # fmt: skip
def test_what_was_set_is_set_again(name, code):
    pytest.importorskip(code.split()[1].partition(".")[0])
    importlib.import_module(code.split()[1].rstrip(";"))
    row = ROWS[name]
    before = read(row, None)
    exec(code)
    now = read(row, None)
    assert before is not None and now is not None and now != before
    row.write(before)
    assert read(row, None) == before
    row.write(now)
    assert read(row, None) == now
    row.write(before)


def test_the_processors_mode_is_seen_in_pythons_floats():
    torch = pytest.importorskip("torch")
    row = ROWS["PyTorch's denormal numbers"]
    assert read(row, None) is False
    if not torch.set_flush_denormal(True):
        pytest.skip("the processor has no such mode")
    try:
        assert read(row, None) is True
    finally:
        row.write(False)
    assert read(row, None) is False
