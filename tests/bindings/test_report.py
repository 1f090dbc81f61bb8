"""holdfast.report: what it reads from replies, and how it shows it."""

import shutil
import subprocess
from pathlib import Path

import pytest

report = pytest.importorskip("holdfast.report")


def cost(number, title, **kernel):
    made = report.CellCost(number, title, ms=1234.56, kernel=kernel)
    made.run = kernel.get("run", "plain")
    return made


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("%%execute_with_scorep\n\n# fit\nx = 1", "fit"),
        ("x = 1", "x = 1"),
        ("%%enable_multicellmode", "%%enable_multicellmode"),
        ("", ""),
    ],
)
def test_title(source, title):
    assert report.cell_title(source) == title


def test_kind():
    assert cost(1, "a").kind == "plain"
    assert cost(1, "a", run="isolated").kind == "isolated"
    assert cost(1, "a", run="isolated", trace="scorep-1").kind == "instrumented"


def test_table():
    fields = {
        "hand_over_in_ms": 3.21,
        "hand_over_out_ms": 0.2,
        "bytes_mapped": 70 * 2**20,
        "bytes_copied": 512,
        "trace": "scorep-1",
    }
    table = report.format_table([cost(1, "load"), cost(2, "fit " * 20, **fields)])
    head, rule, plain, recorded = table.splitlines()
    assert plain.split() == ["1", "load", "plain", "1234.6", "-", "-", "-", "-"]
    assert recorded.endswith("instrumented  1234.6    3.2     0.2  70.0 MiB   512 B")
    assert len({len(line) for line in (rule, plain, recorded)}) == 1


def test_bytes():
    shown = [report.show_bytes(n) for n in (0, 1023, 1024, 3 * 2**30, 5000 * 2**30, None)]
    assert shown == ["0 B", "1023 B", "1.0 KiB", "3.0 GiB", "5000.0 GiB", "-"]


def test_archive_is_found(tmp_path):
    (tmp_path / "scorep-1").mkdir()
    assert report.trace_archive(cost(1, "a"), tmp_path) is None
    found = report.trace_archive(cost(1, "a", trace="scorep-1"), tmp_path)
    assert found == tmp_path / "scorep-1/traces.otf2"


def test_unreadable_archive(tmp_path):
    if shutil.which("otf2-print") is None:
        pytest.skip("no otf2-print")
    with pytest.raises(subprocess.CalledProcessError):
        report.trace_lines(Path(tmp_path, "none.otf2"), 5)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"nbformat": 4}'])
def test_what_is_no_notebook_is_named_in_a_line(tmp_path, capsys, text):
    path = tmp_path / "nope.ipynb"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        report.main([str(path), "--output", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1 and "nope.ipynb" in said
    assert not (tmp_path / "out").exists()
