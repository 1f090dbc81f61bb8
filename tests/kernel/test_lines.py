"""`%%execute_with_scorep --lines` and the view of the source, over the real kernel."""

import json
import re

import effort
import pytest

pytest.importorskip("holdfast._views")

CELL = "%%execute_with_scorep --lines"
SHOW = "%trace --view source --text"
# Some tenths of a second, nearly all of them in one line.
DEFINED = """def work(n):
    total = 0
    for step in range(40):
        total += sum(range(n))
    if total < 0:
        total = 1
    return total"""


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


def tables(kernel, command=SHOW):
    """By file: by line the samples, the share of the function, and the code."""
    outcome = ok(kernel, command)
    assert not outcome.stream("stderr"), outcome.stream("stderr")
    title, *parts = outcome.stream("stdout").split("\n\n")
    found = {}
    for part in parts:
        head, names, *rows = part.splitlines()
        ends = [match.end() for match in re.finditer(r"\S+( s|of function| of function)?", names)]
        columns = {}
        for row in rows:
            number = int(row[: ends[0]])
            samples = row[ends[1] : ends[2]].strip().replace(",", "")
            columns[number] = int(samples or 0), row[ends[-1] :].removeprefix("  ")
        found[head.partition(": ")[0]] = columns
    return title, found


@pytest.mark.parametrize(
    "way", effort.core(["in-process", "forked", "isolated"], ["in-process", "isolated"])
)
def test_lines_of_cells_and_of_ones_own_modules(kernel, tmp_path, way):
    (tmp_path / "own.py").write_text(DEFINED + "\n")
    ok(kernel, f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport own")
    ok(kernel, DEFINED)
    number = int(ok(kernel, "len(In) - 1").result)
    outcome = ok(kernel, f"{CELL} --run={way}\na = work(300_000)\nb = own.work(300_000)\na - b")
    assert outcome.result == "0" and outcome.cost["run"] == way
    assert outcome.stream("stderr") == ""
    title, found = tables(kernel)
    assert re.match(rf"cell In\[{number + 1}\]: [\d,]+ samples of .* 1,000 a second", title)
    assert set(found) == {f"In[{number - 1}]", f"In[{number + 1}]", str(tmp_path / "own.py")}
    for name in (f"In[{number - 1}]", str(tmp_path / "own.py")):
        rows = found[name]
        all_samples = sum(samples for samples, _ in rows.values())
        assert all_samples > 20 and rows[4][0] > 0.9 * all_samples
        assert rows[6] == (0, "        total = 1"), "it was never run"
        assert [code for _, code in rows.values()] == DEFINED.splitlines()
    assert found[f"In[{number + 1}]"][3][1] == "b = own.work(300_000)"


@pytest.mark.fresh
def test_the_view_and_the_file_have_it_later(kernel, tmp_path):
    ok(kernel, DEFINED)
    outcome = ok(kernel, f"{CELL}\nwork(300_000)")
    before = tables(kernel)
    ok(kernel, "def work(n): pass")
    ok(kernel, "%%execute_with_scorep\nwork(1)")
    assert "a trace doesn't know the lines inside" in ok(kernel, SHOW).stream()
    assert tables(kernel, f"{SHOW} 2") == before
    where = outcome.cost["trace"]
    assert tables(kernel, f"{SHOW} {where}")[1] == before[1], "an experiment's directory does, too"
    shown = "from holdfast import views\nimport json\nprint(json.dumps(views.trace(2).source()))"
    source = json.loads(ok(kernel, shown).stream())
    first = source["files"][0]
    assert (source["kind"], first["name"], first["cell"]) == ("sampled", "In[1]", 1)
    assert first["functions"][0]["calls"] == 1 and first["text"] == DEFINED + "\n"
    data = ok(kernel, "sorted(views.trace(2).data()['source'])").result
    assert data == "['files', 'kind', 'notes', 'seconds']"


@pytest.mark.parametrize("way", effort.core(["in-process", "forked", "isolated"], ["forked"]))
def test_a_cell_that_raises_or_dies(kernel, way):
    ok(kernel, DEFINED + "\nimport os, signal")
    first, last = f"In[{kernel.before + 1}]", f"In[{kernel.before + 4}]"
    raised = kernel.run(f"{CELL} --run={way}\nwork(300_000)\n1 / 0")
    assert raised.content["ename"] == "ZeroDivisionError"
    _, found = tables(kernel)
    assert found[first][4][0] > 20
    died = kernel.run(f"{CELL} --run={way}\nwork(300_000)\nos.kill(os.getpid(), signal.SIGKILL)")
    assert died.content["ename"] == "CellDied"
    _, found = tables(kernel)
    assert found[first][4][0] > 20
    if way == "in-process":
        assert found[last][2][1] == "work(300_000)"


def test_time_magics_have_their_lines(any_kernel):
    kernel = any_kernel
    ok(kernel, DEFINED)
    number = int(ok(kernel, "len(In) - 1").result) + 1
    ok(kernel, f"{CELL}\n%%time\na = 1\nb = work(300_000)")
    _, found = tables(kernel)
    below = found[f"In[{number}], below %%time"]
    assert [code for _, code in below.values()] == ["a = 1", "b = work(300_000)"]
    assert found[f"In[{number}]"][1][1].startswith("get_ipython().run_cell_magic('time'")
    ok(kernel, f"{CELL}\na = 1\n%timeit -n 1 -r 1 work(300_000)")
    _, found = tables(kernel)
    assert found[f"In[{number + 2}]"][3][1].startswith("get_ipython().run_line_magic('timeit'")


def test_wrong_options_are_errors(kernel):
    for head, words in {
        "%%execute_with_scorep --line": "--run=auto|in-process|forked|isolated, --repeat N (2 to 100) and --lines",
        "%%execute_with_scorep --lines lines": "this is unknown: lines",
        "%%isolated --lines": "--lines needs a recording",
    }.items():
        refused = kernel.run(f"{head}\nx = 1").content
        assert refused["ename"] == "UsageError" and words in refused["evalue"]
    assert kernel.run("x").content["ename"] == "NameError"


def test_sources_that_cant_be_written_cost_themselves_alone(kernel):
    ok(
        kernel,
        "from holdfast.scorep import lines\ndef full(directory): raise OSError('the disk is full')\n"
        "lines._write_sources, kept = full, lines._write_sources",
    )
    outcome = ok(kernel, f"{CELL}\ndef f(): pass\nf()")
    assert "are missing: the disk is full" in outcome.stream("stderr")
    assert re.search(r"__main__:f +1 ", ok(kernel, "%trace --text").stream()), "the trace is there"
    ok(kernel, "lines._write_sources = kept")
    assert ok(kernel, f"{CELL}\nf()").stream("stderr") == ""


@pytest.mark.fresh
def test_lines_of_every_cell_by_the_arguments(kernel):
    ok(kernel, "%%scorep_python_binding_arguments\n--lines")
    ok(kernel, DEFINED)
    ok(kernel, "%%execute_with_scorep\nwork(300_000)")
    assert tables(kernel)[1]["In[2]"][4][0] > 20


@pytest.mark.fresh  # the text of its cells is asked for by their numbers
def test_what_a_trace_alone_knows(kernel):
    ok(kernel, "def f(n):\n    return n and f(n - 1)\n\ndef unused(): pass")
    ok(kernel, "%%execute_with_scorep\nf(3)")
    text = ok(kernel, SHOW).stream()
    assert re.search(r"\n   1      4  [\d.]+  [\d.]+  +[\d.]+  def f\(n\):\n", text)
    assert "unused" not in text
