"""%holdfast publish, and what other programs see of a notebook that runs."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import until

from holdfast import store
from holdfast.commands import history

LINE = re.compile(
    r"Saved: generation (\d+) of the session (/holdfast-\S+)\nC: +(.+)\nPython: +(.+)\n"
)


def publish(kernel, code="%holdfast publish"):
    outcome = kernel.run(code)
    assert outcome.status == "ok", outcome.content
    found = LINE.match(outcome.stream())
    assert found, outcome.stream()
    generation, name, in_c, in_python = found.groups()
    assert in_c == f'hf_session_open_readonly("{name}", &session, &error)'
    return int(generation), name, in_python


def elsewhere(opened, code):
    program = f"import holdfast.store\nwith {opened} as s:\n    {code}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def since(kernel, name):
    tool = Path(kernel.manager.kernel_spec.argv[0]).with_name("holdfast")
    said = subprocess.run([tool, "info", name], capture_output=True, text=True, check=True).stdout
    return re.search(r"^since then +(.*)$", said, re.M)[1]


@pytest.mark.parametrize("code", ["%holdfast publish", "# now\nholdfast.publish()\n"])
def test_other_programs_open_what_was_published(kernel, code):
    kernel.run("import holdfast, numpy as np; mine = np.arange(3.0)")
    generation, _, opened = publish(kernel, code)
    assert elsewhere(opened, "print(s.generation, s['mine'].sum())") == f"{generation} 3.0"
    kernel.run("mine += 1; lost = (i for i in ())")
    again, _, opened = publish(kernel, code)
    assert again > generation
    assert elsewhere(opened, "print(s['mine'].sum(), 'lost' in s)") == "6.0 False"
    outcome = kernel.run(code)
    assert "lost isn't in it:" in outcome.stream()
    kernel.run("del lost, mine")


def test_published_where_it_can_not_be(kernel):
    kernel.run("import holdfast")
    for code in (
        "x = 1\nholdfast.publish()",
        "x = 1\n%holdfast publish",
        "%%isolated\nholdfast.publish()",
    ):
        outcome = kernel.run(code)
        assert outcome.status == "error"
        assert "only" in outcome.content["evalue"], outcome.content
    assert kernel.run("%holdfast publish now").status == "error"
    said = kernel.run("x = 1\nholdfast.publish()").content["evalue"]
    assert "saved by it in a cell after this one" in said
    assert kernel.run("%holdfast publish").status == "ok"


def test_info_shows_whether_cells_have_run_since(kernel, tmp_path):
    _, name, _ = publish(kernel)
    until(lambda: since(kernel, name) == "no cell has run")  # a turn after the reply
    kernel.run("import pathlib")
    files = [tmp_path / name for name in ("begun1", "go1", "begun2", "go2")]
    code = "pathlib.Path({!r}).touch()\nwhile not pathlib.Path({!r}).exists(): pass"
    sent = [kernel.client.execute(code.format(*map(str, files[i : i + 2]))) for i in (0, 2)]
    until(files[0].exists)
    files[1].touch()  # the second one waits in the queue: nothing is saved in between
    until(files[2].exists)
    number = kernel.finish(sent[0]).content["execution_count"] + 1
    assert re.fullmatch(
        rf"\d cells? ha(s|ve) run, cell \[{number}\] is running", since(kernel, name)
    )
    files[3].touch()
    kernel.finish(sent[1])
    publish(kernel)
    until(lambda: since(kernel, name) == "no cell has run")


def test_a_save_wakes_readers(kernel):
    kernel.run("mine = 1")
    _, _, opened = publish(kernel)
    program = (
        f"import holdfast.store\nwith {opened} as s:\n"
        "    print(s['mine'], flush=True)\n"
        "    while s['mine'] != 3:\n"
        "        assert s.wait()\n"
        "        s.refresh()\n"
        "    print(s['mine'], flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout.readline() == "1\n"
        kernel.run("mine = 2")
        publish(kernel)
        kernel.run("mine = 3")  # saved when the notebook is idle
        assert reader.stdout.readline() == "3\n"
        assert reader.wait() == 0
    kernel.run("del mine")


def test_a_session_without_a_name_is_opened_by_its_descriptor():
    with store.Session.create(memfd=True) as session:
        session["mine"] = 1
        names = SimpleNamespace(generation=session.commit(), reasons={})
        worker = SimpleNamespace(session=session, names=names, history={})
        said = history.run("publish", worker).splitlines()
        assert said[0] == "Saved: generation 1 of the session (which has no name)"
        assert re.fullmatch(
            r'C: +hf_session_open_fd_readonly\(open\("/proc/\d+/fd/\d+", O_RDWR\), &session, &error\)',
            said[1],
        )
        assert elsewhere(said[2].removeprefix("Python:").strip(), "print(s['mine'])") == "1"
        session.destroy()


def test_other_programs_than_notebooks_say_what_to_do():
    code = "import holdfast\nholdfast.publish()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "RuntimeError: only a notebook of Holdfast's" in ran.stderr


TABLES = """
import numpy as np, pandas as pd, polars as pl, pyarrow as pa
numbers = np.arange(100_000.0)
frame = pd.DataFrame({"a": numbers, "b": np.arange(100_000) % 7})
shared = frame["a"].to_numpy()
polar = pl.DataFrame({"a": numbers, "b": np.arange(100_000) % 7})
arrow = pa.table({"a": numbers, "b": np.arange(100_000) % 7})
"""
CHANGE = """
frame["a"] += 1
polar = polar.with_columns(pl.col("a") + 1)
arrow = pa.table({"a": numbers + 1, "b": arrow["b"]})
"""


def test_duckdb_queries_the_tables_of_a_notebook_that_runs(kernel):
    for library in "duckdb", "pandas", "polars", "pyarrow":
        pytest.importorskip(library)
    assert kernel.run(TABLES).status == "ok"
    _, _, opened = publish(kernel)
    program = f"""
import sys
import duckdb, holdfast.store
with {opened} as s:
    while True:
        for name in "frame", "polar", "arrow":
            table_of = s[name]
            assert hasattr(table_of, "__arrow_c_stream__"), name
            print(name, *duckdb.sql("select count(*), sum(a), max(b) from table_of").fetchall()[0], flush=True)
        if not sys.stdin.readline():
            break
        s.wait()
        s.refresh()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True
    ) as reader:

        def rows(total):
            for name in "frame", "polar", "arrow":
                assert reader.stdout.readline() == f"{name} 100000 {total} 6\n"

        rows(4999950000.0)
        assert kernel.run(CHANGE).status == "ok"
        publish(kernel)
        reader.stdin.write("\n")
        reader.stdin.flush()
        rows(5000050000.0)
        reader.stdin.close()
        assert reader.wait() == 0
    kernel.run("del numbers, frame, shared, polar, arrow")
