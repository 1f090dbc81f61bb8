"""holdfast.report: what it measures of a notebook's cells, and how it shows it, as text and as a page.

tests/browser/test_report.py looks at the page as a person does.
"""

import asyncio
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import effort
import pytest
from effort import core

report = pytest.importorskip("holdfast.report")
from holdfast.report import columns, page, running, traces  # noqa: E402


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


def test_the_loop_goes_on_while_a_trace_is_awaited(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    cell, turned = nbformat.v4.new_code_cell("1"), threading.Event()

    def looks(place):
        while not turned.is_set():
            yield
        Path(place).mkdir()
        Path(place, "traces.otf2").write_bytes(b"7 bytes")

    monkeypatch.setattr(running.experiments, "looks", looks)
    node = nbformat.v4.new_notebook(cells=[cell])
    runner = running._Runner(node, tmp_path, "python3", 9, None, True)
    reply = {"metadata": {"holdfast": {"trace": "mine"}}, "content": {"status": "ok"}}

    async def ran():
        asyncio.get_running_loop().call_later(0.01, turned.set)
        await runner._on_executed(cell, 0, reply)

    asyncio.run(ran())
    assert runner.costs[0].bytes_trace == 7


CODE = {"cell_type": "code", "metadata": {}, "source": "1"}


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([CODE | {"source": 5}], "source of cell 1 is int, not str"),
        ([CODE, CODE | {"metadata": {"tags": 5}}], "the tags of cell 2 are no list"),
        ([5], "its JSON is built otherwise"),
        ([CODE | {"source": "'\ud800'"}], "has the character '.ud800', which is half of a pair"),
        (None, "its JSON is built otherwise"),
        ([{"cell_type": "code", "metadata": {}}], None),
        ([{"cell_type": "markdown", "metadata": {}, "source": ["a", "b"]}], None),
    ],
)
def test_a_notebook_that_lacks_parts_or_has_others(tmp_path, cells, why):
    path = tmp_path / "a.ipynb"
    path.write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    )
    if why is None:
        (cell,) = report.read_notebook(path).cells
        assert cell.source in ("", "ab") and cell.metadata == {}
        return
    with pytest.raises(ValueError, match=why):
        report.read_notebook(path)


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
    assert plain.split() == ["1", "load", "plain", "plain", "ok", "1234.6", *"-" * 7]
    assert recorded.endswith("3.2     0.2  70.0 MiB   512 B")
    assert len({len(line) for line in (rule, plain, recorded)}) == 1
    # Each head is explained, once.
    heads = [line.split("  ")[0] for line in columns.meanings().splitlines()]
    assert heads == re.split(r"  +", head.strip())


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


# ---- whole runs


class Ran:
    """A run of the program: what it printed, and the page."""

    def __init__(self, directory, cells, *options, kernel="hf-report", tags=(), skipped=()):
        nbformat = pytest.importorskip("nbformat")
        pytest.importorskip("nbclient")
        v4 = nbformat.v4
        made = [v4.new_code_cell(cell) for cell in cells]
        for number in tags:
            made[number].metadata["tags"] = ["raises-exception"]
        for number in skipped:
            made[number].metadata["tags"] = ["skip-execution"]
        nbformat.write(
            v4.new_notebook(cells=[v4.new_markdown_cell("# T"), *made]), directory / "n.ipynb"
        )
        command = [sys.executable, "-m", "holdfast.report", "--kernel", kernel, *options]
        self.done = subprocess.run(
            [*command, "--output", directory / "out", directory / "n.ipynb"],
            env=os.environ | {"JUPYTER_PATH": str(directory / "prefix/share/jupyter")},
            text=True,
            capture_output=True,
            timeout=240,
        )
        self.out, self.status = self.done.stdout, self.done.returncode
        self.page = (directory / "out/n.report.html").read_text()

    def section(self, number):
        found = re.search(
            rf'<section class="one" id="cell-{number}">.*?</section>', self.page, re.S
        )
        return found[0]

    def row(self, number):
        """The columns of a cell by their heads, as the page has them."""
        body = re.search(r"<tbody>(.*?)</tbody>", self.page, re.S)[1]
        rows = re.findall(r"<tr.*?</tr>", body, re.S)
        row = next(row for row in rows if f'href="#cell-{number}"' in row)
        texts = [html.unescape(re.sub("<.*?>", "", one)) for one in re.findall(r"<td.*?</td>", row)]
        return dict(zip((column.head for column in columns.COLUMNS), texts, strict=True))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with the kernelspec hf-report."""
    if shutil.which("holdfast-kernel", path=os.path.dirname(sys.executable)) is None:
        pytest.skip("the package isn't installed here")
    directory = tmp_path_factory.mktemp("report")
    install = [sys.executable, "-m", "holdfast.install", "--no-check"]
    install += ["--prefix", directory / "prefix"]
    subprocess.run([*install, "--name", "hf-report"], check=True, timeout=120)
    return directory


RECORDED = "%%execute_with_scorep\n"
CELLS = [
    "import os\nheld = bytearray(100 << 20)\nfor at in range(0, 100 << 20, 4096): held[at] = 1",
    RECORDED + "def leaf(): pass\nfor _ in range(40): leaf()",
    "1 / 0",
    RECORDED + "raise ValueError('</script><b>hostile</b>')",
    "os._exit(3)",
    "raise KeyError('wanted')",
    "sum(range(3_000_000))",
    RECORDED + "def last(): os._exit(4)\nlast()",
]


@pytest.fixture(scope="module")
def whole(directory):
    return Ran(directory, CELLS, "--monitor", "0.02", "--trace-lines", "3", tags=[5])


def test_a_run_goes_on_after_cells_that_fail_and_names_them(whole):
    assert whole.status == 1, whole.out + whole.done.stderr
    assert re.search(r"^8 cells ran in [\d.]+ s, 4 failed$", whole.out, re.M)
    told = re.findall(r"^  cell (\d): (\w+): ", whole.out, re.M)
    assert told == [
        ("3", "ZeroDivisionError"),
        ("4", "ValueError"),
        ("5", "CellDied"),
        ("8", "CellDied"),
    ]
    assert whole.done.stderr == "python -m holdfast.report: failed: 3, 4, 5, 8\n"
    outcomes = [whole.row(number)["ended"] for number in range(1, 9)]
    assert outcomes == ["ok", "ok", "error", "error", "died", "error", "ok", "died"]
    failures = re.search(r'<section class="failures".*?</section>', whole.page, re.S)[0]
    assert re.findall('href="#cell-([0-9]+)"', failures) == ["3", "4", "5", "8"]
    assert "raises-exception" in whole.section(6)


def test_what_a_cell_cost_is_measured_also_of_plain_ones(whole):
    first, last = whole.row(1), whole.row(7)
    assert first["kind"] == "plain" and first["peak"].endswith("MiB")
    assert 120 < float(first["peak"].split()[0]) < 200  # 100 MiB, and what Python takes
    assert 0 < float(last["cpu ms"]) <= float(last["ms"]) + 1
    assert first["rec ms"] == first["in ms"] == first["mapped"] == "-"
    recorded = whole.row(2)
    assert (recorded["kind"], recorded["ran"]) == ("instrumented", "in-process")
    assert float(recorded["in ms"]) > 0 and float(recorded["out ms"]) > 0


def test_a_recorded_cell_that_died_is_listed_as_one(whole):
    """Its process sent no report; the kernel says where the cell ran, and where its trace is."""
    assert (whole.row(5)["kind"], whole.row(5)["ran"]) == ("plain", "plain")
    assert (whole.row(8)["kind"], whole.row(8)["ran"]) == ("instrumented", "in-process")
    assert "<th>__main__:last</th><td>1</td>" in html.unescape(whole.section(8))


def test_the_page_has_functions_and_views_and_nothing_of_others(whole):
    section = html.unescape(whole.section(2))
    assert re.search(r"<th>__main__:leaf</th><td>40</td>", section)
    assert "<template>" in section and "data:image/svg+xml" in section
    assert "<b>hostile" not in whole.page and "&lt;b&gt;hostile" in whole.section(4)
    assert whole.page.count('type="text/x-holdfast-bundle"') == 1
    links = re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', whole.page)
    assert links == [], "the file needs no other"
    assert "Samples of the monitor" in whole.page
    for column in columns.COLUMNS[1:]:
        assert f"<dt>{column.head}</dt><dd>{html.escape(column.meaning)}" in whole.page
        assert column.meaning in whole.out


def test_a_cell_that_is_too_slow_is_interrupted_and_the_run_stops_on_request(directory):
    ran = Ran(directory, ["while True: pass", "b = 2"], "--stop", "--timeout", "0.5")
    assert ran.status == 1 and "1 cell ran in" in ran.out
    assert "1 failed, 1 after that didn't run" in ran.out and "1 cell after it" in ran.page
    assert ran.row(1)["ended"] == "error"
    assert re.search(r"cell 1: KeyboardInterrupt: .*interrupted after --timeout 0.5", ran.out)


def test_a_cell_with_the_tag_to_skip_it_is_none_that_did_not_run(directory):
    ran = Ran(directory, ["1", "2"], skipped=[0])
    assert (ran.status, ran.done.stderr) == (0, ""), ran.done.stderr
    assert "1 cell ran in" in ran.out and "didn't run" not in ran.out


@pytest.mark.long
def test_a_notebook_without_cells(directory):
    ran = Ran(directory, [])
    assert (ran.status, ran.done.stderr) == (0, "")
    assert "0 cells ran" in ran.out and "has no code cells" in ran.page


def test_a_kernel_that_dies_ends_the_run(directory):
    pytest.importorskip("ipykernel")
    ran = Ran(directory, ["a = 1", "import os; os._exit(1)", "b = 2"], kernel="python3")
    assert ran.status == 1 and "cell 2: the kernel died" in ran.out
    assert "1 after that didn't run" in ran.out
    executed = json.loads((directory / "out/n.ipynb").read_text())
    assert executed["cells"][1]["execution_count"] == 1


def test_a_kernel_that_is_not_there_is_named(directory, capsys):
    with pytest.raises(SystemExit) as ended:
        report.main([str(directory / "n.ipynb"), "--kernel", "nope"])
    assert ended.value.code == 2 and "there is no kernel nope" in capsys.readouterr().err


# ---- the notebook's folder; which cells are recorded; what is written as the run goes on


def write_notebook(path, cells, **metadata):
    v4 = pytest.importorskip("nbformat").v4
    made = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells], metadata=metadata)
    path.write_text(json.dumps(made))


def command(directory, *options):
    return [sys.executable, "-m", "holdfast.report", "--kernel", "hf-report", *map(str, options)]


def environment(directory):
    return os.environ | {"JUPYTER_PATH": str(directory / "prefix/share/jupyter")}


def sections(path):
    """What the page has of each cell, in the notebook's order."""
    return re.findall(r'<section class="one" id="cell-.*?</section>', path.read_text(), re.S)


def test_cells_find_what_lies_beside_the_notebook(directory, tmp_path):
    """The program is started elsewhere; traces lie in its output, and nothing of it beside the notebook."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "helper.py").write_text("def answer(): return open('data.txt').read()")
    (folder / "data.txt").write_text("42")
    write_notebook(folder / "n.ipynb", ["import helper, os", RECORDED + "print(helper.answer())"])
    done = subprocess.run(
        command(directory, folder / "n.ipynb"),
        env=environment(directory),
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {
        "helper.py",
        "data.txt",
        "n.ipynb",
    }
    executed = json.loads((tmp_path / "out/n.ipynb").read_text())
    assert executed["cells"][1]["outputs"][0]["text"] == ["42\n"]
    assert "helper:answer" in sections(tmp_path / "out/n.report.html")[1]
    assert len(list((tmp_path / "out").glob("scorep-*/traces.otf2"))) == 1


@pytest.mark.parametrize(
    ("record", "kinds"), core([("all", "IIp"), ("none", "ppp")], [("all", "IIp")])
)
def test_each_cell_is_recorded_or_none_is(directory, tmp_path, record, kinds):
    (tmp_path / "prefix").symlink_to(directory / "prefix")
    cells = ["def f(): pass\nf()", RECORDED + "f()", "%holdfast last"]
    ran = Ran(tmp_path, cells, "--record", record)
    assert ran.status == 0, ran.out + ran.done.stderr
    found = "".join(
        "I" if ran.row(number)["kind"] == "instrumented" else "p" for number in (1, 2, 3)
    )
    assert found == kinds
    executed = json.loads((tmp_path / "out/n.ipynb").read_text())
    assert "".join(executed["cells"][1]["source"]) == "def f(): pass\nf()", "as it was written"


@pytest.mark.parametrize(("limit", "kept"), effort.core([("20k", 2), ("", 3)], [("20k", 2)]))
def test_the_largest_traces_go_when_they_were_read(directory, tmp_path, monkeypatch, limit, kept):
    """A notebook whose cells were all recorded has left 21 GB. What a person named stays."""
    monkeypatch.setenv("HOLDFAST_TRACE_LIMIT", limit)
    (tmp_path / "prefix").symlink_to(directory / "prefix")
    cells = ["def f(): pass", "for _ in range(5000): f()", "%env SCOREP_EXPERIMENT_DIRECTORY=mine"]
    ran = Ran(tmp_path, [*cells, cells[1]], "--record", "all")
    assert ran.status == 0, ran.out + ran.done.stderr
    made = list((tmp_path / "out").glob("scorep-*/traces.otf2"))
    assert len(made) == kept and (tmp_path / "mine/traces.otf2").exists()
    assert re.search(r"for _ in range.* ms  trace [0-9.]+ KiB", ran.out)
    assert ("HOLDFAST_TRACE_LIMIT=0 keeps" in ran.out) == ("was removed" in ran.page) == bool(limit)
    assert "f</th><td>5,000</td>" in sections(tmp_path / "out/n.report.html")[1]


def test_the_longest_cells_come_first(directory):
    costs = [cost(number, f"step {number}") for number in (1, 2, 3)]
    for one, ms in zip(costs, (5, 900, 40), strict=True):
        one.ms = ms
    lines = report.format_table(costs).splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["2", "3", "1"]
    done = report.Execution(costs, None, 0, None, Path())
    body = re.search("<tbody>.*?</tbody>", page.make(Path("n.ipynb"), done, {}, 0), re.S)[0]
    assert re.findall("#cell-([0-9])", body) == ["2", "3", "1"]


class Stopped:
    """A run that is ended while its third cell is on; `reached` is a pipe that the cell writes to."""

    def __init__(self, directory, folder, signal_number):
        fifo = folder / "reached"
        os.mkfifo(fifo)
        wait = f"open({str(fifo)!r}, 'w').close()\nimport time\ntime.sleep(600)"
        cells = ["a = 1", RECORDED + "def leaf(): pass\nleaf()", wait, "b = 2"]
        write_notebook(folder / "n.ipynb", cells)
        # Files, since the kernel of a killed run may have them for a while.
        with open(folder / "stdout", "w+") as out, open(folder / "stderr", "w+") as err:
            process = subprocess.Popen(
                command(directory, "--output", folder / "out", folder / "n.ipynb"),
                env=environment(directory),
                stdout=out,
                stderr=err,
            )
            with open(fifo) as opened:
                opened.read()
            process.send_signal(signal_number)
            self.status = process.wait(timeout=60)
        self.out, self.err = ((folder / name).read_text() for name in ("stdout", "stderr"))
        self.page = folder / "out/n.report.html"
        self.executed = json.loads((folder / "out/n.ipynb").read_text())


@pytest.mark.parametrize("name", core(["SIGTERM", "SIGINT", "SIGHUP"], ["SIGTERM"]))
def test_a_signal_ends_the_run_and_what_there_is_is_kept(directory, tmp_path, name):
    """As Slurm does at the time limit: SIGTERM, and SIGKILL half a minute later."""
    number = signal.Signals[name]
    ran = Stopped(directory, tmp_path, number)
    assert ran.status == 128 + number, ran.out + ran.err
    assert "3 cells ran" in ran.out and "1 after that didn't run" in ran.out
    first, second, third = sections(ran.page)
    assert "__main__:leaf" in html.unescape(second)
    assert f"{name} ended the run in this cell" in third
    assert f"{name} ended the run" in ran.page.read_text()
    assert ran.executed["cells"][1]["execution_count"] == 2


def test_a_killed_run_leaves_what_was_written(directory, tmp_path):
    ran = Stopped(directory, tmp_path, signal.SIGKILL)
    assert ran.status == -signal.SIGKILL
    text = ran.page.read_text()
    assert "The run hasn&#x27;t ended: this was written before cell" in text
    assert text.endswith("</html>\n")
    assert {path.name for path in (tmp_path / "out").glob(".*")} == set(), "no half file"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--output", "."], "would replace n.ipynb"),
        (["--output", "n.ipynb/x"], "can't write"),
        (["--output", "/proc/nothing"], "can't write"),
        (["--html", "n.ipynb"], "would replace n.ipynb"),
        (["--html", "out/n.ipynb"], "would replace out/n.ipynb"),
        (["--html", "."], "Is a directory"),
        (["--timeout", "0"], "--timeout takes"),
        (["--kernel", "broken"], "the kernel broken doesn't start"),
        (["--kernel", "dies"], "the kernel dies doesn't start"),
        (["--kernel", "ruby"], "is a notebook in python, and the kernel ruby runs ruby"),
    ],
)
def test_what_cannot_be_done_is_said_before_a_cell_runs(
    tmp_path, monkeypatch, capsys, options, words
):
    pytest.importorskip("nbclient")
    for name, argv, language in (
        ("fine", ["false"], "python"),
        ("broken", ["/nothing/here"], "python"),
        ("dies", ["false"], "python"),
        ("ruby", ["false"], "ruby"),
    ):
        (tmp_path / "data/kernels" / name).mkdir(parents=True)
        spec = {"argv": argv, "display_name": name, "language": language}
        (tmp_path / "data/kernels" / name / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    write_notebook(tmp_path / "n.ipynb", ["open('ran', 'w')"], language_info={"name": "python"})
    before = (tmp_path / "n.ipynb").read_bytes()
    with pytest.raises(SystemExit) as ended:
        report.main(["n.ipynb", "--kernel", "fine", *options])
    said = capsys.readouterr().err.splitlines()[-1]
    assert ended.value.code == 2 and words in said, said
    assert (tmp_path / "n.ipynb").read_bytes() == before and not (tmp_path / "ran").exists()


def test_what_is_too_large_is_left_out_and_named(tmp_path):
    done = report.Execution([cost(1, "short"), cost(2, "long")], None, 0, None, tmp_path)
    done.costs[0].ms = 1
    found = {
        number: traces.Recorded(
            tmp_path / f"t{number}/traces.otf2", still="<img>", output="x" * 3000
        )
        for number in (1, 2)
    }
    text = page.make(Path("n.ipynb"), done, found, 4000)
    assert text.count("<template>") == 1 and "1 view is left out, 2.9 KiB, of the cells 1" in text
    first = text[text.index('id="cell-1"') : text.index('id="cell-2"')]
    assert "%trace " + str(tmp_path / "t1") in first and "<template>" not in first
