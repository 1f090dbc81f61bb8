"""%trace over the real kernel: which trace it finds, what it shows, what it writes."""

import base64
import json
import pstats
import re
import shutil

import pytest

pytest.importorskip("holdfast._views")

CELL = "%%execute_with_scorep\n"


def text_of(outcome):
    """The title, and calls by function, as `%trace --text` prints them."""
    title, *lines = outcome.stream().splitlines()
    found = {}
    for line in lines[1:]:
        if match := re.match(r"(\S.*?) +([\d,]+) +[\d.]+ +[\d.]+", line):
            found[match[1]] = int(match[2].replace(",", ""))
    return title, found


def shown(outcome):
    return [
        m["content"]["data"]
        for m in outcome.messages
        if m["msg_type"] in ("display_data", "execute_result")
    ]


@pytest.mark.fresh
def test_a_cell_and_its_run_before(any_kernel, tmp_path):
    kernel = any_kernel
    assert "no recorded cell has run yet" in kernel.run("%trace").stream("stderr")
    kernel.run(
        "def gone(): pass\ndef f(n):\n    if limit == 3 and not n: gone()\n"
        "    return n and f(n - 1)\nlimit = 3"
    )
    kernel.run(CELL + "f(limit)")
    assert "no run before it" in kernel.run("%trace --view compare").stream("stderr")
    kernel.run("limit = 5")
    kernel.run(CELL + "f(limit)")
    count = int(kernel.run("len(In) - 1").result)
    assert text_of(kernel.run("%trace --text")) == (
        f"cell In[{count - 1}]",
        {"__main__:f": 6, f"cell In[{count - 1}]": 1},
    )
    assert text_of(kernel.run(f"%trace {count - 4} --text"))[1]["__main__:f"] == 4
    text = kernel.run("%trace --view compare --text").stream()
    head = (
        rf"cell In\[{count - 1}\]: [\d.]+ s, [\d.]+ s in cell In\[{count - 4}\], \d\d:\d\d:\d\d\n"
    )
    assert re.match(head, text)
    assert re.search(r"\n__main__:f +6 +4 ", text) and re.search(r"\n__main__:gone +0 +1 ", text)
    for view in ("timeline", "flame", "callers", "sandwich", "table", "compare"):
        (data,) = shown(kernel.run(f"%trace --view {view}"))
        assert {"text/html", "image/svg+xml", "text/plain"} <= data.keys()
    result = kernel.run(
        "from holdfast import views\nt = views.trace()\nd = t.data()\n"
        "now, old = (dict(zip(x['region'], x['visits'])) for x in (d['table'], d['previous']['table']))\n"
        "names = d['regions']['name']\n"
        "sorted((names[i], now[i], old.get(i)) for i in now if 'FLUSH' not in names[i])"
    ).result
    assert eval(result) == [("__main__:f", 6, 4), (f"cell In[{count - 1}]", 1, 1)]
    both = "[(r['name'], r['visits'], r['before']['visits']) for r in t.comparison()]"
    found = eval(kernel.run(f"sorted(r for r in {both} if '__main__' in r[0])").result)
    assert found == [("__main__:f", 6, 4), ("__main__:gone", 0, 1)]
    assert eval(kernel.run("{c['index']: c['source'] for c in d['cells']}").result)[2].startswith(
        "def gone(): pass"
    )


def test_exports_are_read_back(kernel, tmp_path):
    kernel.run("def f(): pass")
    kernel.run(CELL + "for _ in range(700): f()")
    names = "a.pstats b.json c.speedscope.json d.callgrind e.folded f.cubex g.html h.svg".split()
    for name in names:
        assert str(tmp_path / name) in kernel.run(f"%trace --export {name}").stream()
    stats = pstats.Stats(str(tmp_path / "a.pstats")).stats
    assert sum(value[1] for key, value in stats.items() if "__main__:f" in key[2]) == 700
    events = json.loads((tmp_path / "b.json").read_text())["traceEvents"]
    assert sum(event["name"] == "__main__:f" for event in events) == 700
    assert "<script" in (tmp_path / "g.html").read_text()
    assert (tmp_path / "h.svg").read_text().startswith("<svg")


@pytest.mark.fresh
def test_what_is_wrong_is_one_line(kernel, tmp_path):
    kernel.run(CELL[:-1] + " --repeat 2\n1")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "traces.otf2").write_bytes(b"x" * 300)
    (tmp_path / "kept").mkdir()
    for line, said in {
        "777": f"isn't a recorded cell that ran; those that did: {kernel.before + 1}\n",
        "--view nonsense": "invalid choice: 'nonsense'",
        "--colour": "unrecognized arguments",
        "--range 2:1": "is empty",
        "--range x": "isn't a range like",
        "--export /nonexistent/a.json": "No such file",
        "--export kept": "the ending of the name",
        "nowhere": "there is no trace nowhere",
        "broken": "can't be read",
        "'": "quotation",
    }.items():
        outcome = kernel.run(f"%trace {line}")
        assert outcome.status == "ok" and not outcome.stream()
        text = outcome.stream("stderr")
        assert text.startswith("%trace: ") and text.count("\n") == 1 and said in text
    kernel.run("import shutil, glob\nfor p in glob.glob('scorep-*'): shutil.rmtree(p)")
    assert "was removed or moved" in kernel.run("%trace").stream("stderr")
    assert "%trace [CELL" in kernel.run("%trace --help").stream()


def test_cells_that_died_and_a_later_main_worker(any_kernel):
    kernel, before = any_kernel, any_kernel.before
    kernel.run("import os, signal\ndef f(): pass")
    kernel.run(CELL + "for _ in range(40): f()")
    kernel.run(CELL + "for _ in range(400): f()\nos.kill(os.getpid(), signal.SIGKILL)")
    title, found = text_of(kernel.run("%trace --text"))
    assert title == f"cell In[{before + 3}]" and found["__main__:f"] == 400
    assert text_of(kernel.run(f"%trace {before + 2} --text"))[1]["__main__:f"] == 40
    (data,) = shown(kernel.run(f"%trace {before + 3}"))
    assert "ended died" in data["text/plain"]


def test_processes_threads_and_multi_cell_mode(kernel):
    kernel.run("import multiprocessing, threading\ndef f(n): return n\ndef work():\n    f(1); f(2)")
    kernel.run("%%enable_multicellmode")
    kernel.run("t = threading.Thread(target=work); t.start(); t.join()")
    kernel.run(
        "with multiprocessing.get_context('fork').Pool(2) as pool: _ = pool.map(f, range(10), 5)"
    )
    kernel.run("%%finalize_multicellmode")
    kernel.run("from holdfast import views\nt = views.trace()")
    assert kernel.run("t.title").result.startswith("'multi-cell run In[")
    calls = kernel.run("[r['visits'] for r in t.table() if r['name'] == '__main__:f']").result
    assert calls == "[12]"
    rows = kernel.run("[(r['process'], r['thread']) for r in t.read().found['rows']]").result
    assert len({process for process, _ in eval(rows)}) >= 2
    assert len(eval(rows)) >= 3


@pytest.mark.fresh  # its cells are known by their numbers
def test_a_directory_that_a_later_cell_took(kernel):
    kernel.run(
        "%%scorep_env\nSCOREP_EXPERIMENT_DIRECTORY=same\nSCOREP_OVERWRITE_EXPERIMENT_DIRECTORY=true"
    )
    kernel.run("def f(): pass")
    kernel.run(CELL + "f()")
    kernel.run(CELL + "f(); f()")
    text = kernel.run("%trace 3").stream("stderr")
    assert "the trace of In[3] is gone" in text and "In[4]" in text
    assert text_of(kernel.run("%trace --text"))[1]["__main__:f"] == 2
    assert text_of(kernel.run("%trace same --text"))[1]["__main__:f"] == 2


@pytest.mark.fresh
def test_nothing_of_it_is_loaded_before_it_is_asked_for(any_kernel):
    any_kernel.run(CELL + "1")
    loaded = "[m for m in __import__('sys').modules if 'holdfast' in m and 'views' in m]"
    assert any_kernel.run(loaded).result == "[]"


def test_a_page_holds_its_data_and_the_monitors(kernel):
    kernel.run("%perfmonitor_start 0.01")
    kernel.run(
        "import time\nfrom holdfast.monitor import source\nstate = source.connect().state\n"
        "def f():\n    wanted = state()['samples'] + 20\n"
        "    while state()['samples'] < wanted: time.sleep(0.01)"
    )
    kernel.run(CELL + "f()")
    (data,) = shown(kernel.run("%trace"))
    kernel.run("from holdfast import views\nd = views.trace().data()")
    tracks = eval(kernel.run("[(x['name'], len(x['time'])) for x in d['tracks']]").result)
    assert {"CPU", "Memory"} <= dict(tracks).keys() and min(dict(tracks).values()) > 2
    inside = "all(d['begin'] <= t <= d['end'] for x in d['tracks'] for t in x['time'])"
    assert kernel.run(inside).result == "True"
    assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", data["text/html"])
    assert re.search(r"data:image/svg\+xml;base64,", data["text/html"])
    still = re.search(r"base64,([^\"]+)", data["text/html"])[1]
    assert base64.b64decode(still).startswith(b"<svg")


@pytest.mark.skipif(shutil.which("scorep-config") is None, reason="there is no scorep-config")
def test_a_trace_of_score_p(start_kernel):
    kernel = start_kernel(env={"HOLDFAST_RECORDER": "auto", "SCOREP_ENABLE_TRACING": "true"})
    kernel.run("def f(n):\n    return n and f(n - 1)")
    outcome = kernel.run(CELL + "f(9)")
    (line,) = outcome.summaries
    assert "; 22 events, recording not measured; " in line["text/plain"]
    title, found = text_of(kernel.run("%trace --text"))
    assert title == "cell In[2]" and found["__main__:f"] == 10
    assert shown(kernel.run("%trace --view flame"))
    kernel.run(CELL + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    text = kernel.run("%trace").stream("stderr")
    assert text == "%trace: In[5] died and left no trace\n"
    assert text_of(kernel.run("%trace 2 --text"))[1]["__main__:f"] == 10


def test_repeated_runs_are_compared_with_repeated_runs(kernel):
    kernel.run("def f(n): return sum(range(n))")
    for _ in range(4):
        assert kernel.run(CELL + "f(1_000_000)").status == "ok"  # In[2] to In[5]
    kernel.run("def f(n): return sum(range(50))")
    for _ in range(4):
        assert kernel.run(CELL + "f(1_000_000)").status == "ok"  # In[7] to In[10]
    text = kernel.run("%trace 7-10 2,3,4-5 --view compare --text").stream()
    head = r"cells In\[7\] to In\[10\], compared with cells In\[2\] to In\[5\]: .* 4 runs\) now"
    assert re.match(head, text), text
    # The function was defined anew, in another cell: it is the same one as before.
    assert (
        re.search(r"\n__main__:f .* faster\n", text) and " gone" not in text and " new" not in text
    )
    assert re.search(r"\ncell In\[10\] ", text) and "\ncell In[5] " not in text
    (data,) = shown(kernel.run("%trace 7-10 2-5 --view compare"))
    assert "text/html" in data
    assert len(shown(kernel.run("%trace 2-5"))) == 4
    for line, words in {
        "%trace 7-10 2-3 --view compare --range 0:1": "--range can't be used",
        "%trace 7-10 20-30 --view compare": "no recorded cell of In[20] to In[30] ran",
        "%trace 7,8 99 --view compare": "In[99] isn't a recorded cell",
    }.items():
        assert words in kernel.run(line).stream("stderr")
    kernel.run(CELL + "f(2)")
    number = int(kernel.run("len(In) - 2").result)
    refused = kernel.run(f"%trace 7,{number} 2-5 --view compare").stream("stderr")
    assert "different code" in refused


@pytest.mark.fresh
def test_cells_that_differ_are_compared_function_by_function(any_kernel):
    kernel = any_kernel
    kernel.run("def f(): pass")
    kernel.run(CELL + "f()")
    kernel.run("# edited\n\ndef f(): return 1")
    kernel.run(CELL + "f(); f()")
    count = int(kernel.run("len(In) - 1").result)
    text = kernel.run(f"%trace {count - 1} {count - 3} --view compare --text").stream()
    functions = [line.split()[:4] for line in text.splitlines()[2:-1]]
    assert sorted(line[:-1] if line[0] == "__main__:f" else line[:2] for line in functions) == [
        ["__main__:f", "2", "1"],
        ["cell", f"In[{count - 1}]"],
    ], text


def test_cells_that_differ_in_the_magic_line_are_runs_of_one(any_kernel):
    kernel = any_kernel
    kernel.run(CELL + "x = 1")
    kernel.run("%%execute_with_scorep --run=isolated\nx = 1")
    kernel.run("# a comment\n%%execute_with_scorep\nx = 1")
    count = int(kernel.run("len(In) - 1").result)
    text = kernel.run(f"%trace {count - 3}-{count - 1} --view compare --text").stream()
    assert text.startswith(f"cells In[{count - 3}] to In[{count - 1}]: ") and "3 runs" in text
    # And the run before is found.
    assert f"in cell In[{count - 2}]" in kernel.run("%trace --view compare --text").stream()


def test_marked_cells_are_called_by_what_the_user_knows(any_kernel):
    kernel = any_kernel
    kernel.run("%%enable_multicellmode")
    kernel.run("def g(): return 1\ng()")
    kernel.run("y = sum(range(1000))\ng()")
    kernel.run("%%finalize_multicellmode")
    _, found = text_of(kernel.run("%trace --text"))
    assert {"marked cell [0]", "marked cell [1]", "multi-cell mode: compiling, printing"} <= set(
        found
    )
    assert not [name for name in found if "_holdfast" in name or "<module>" in name]


# ---- the recordings on the disk


def folders(kernel):
    return set(kernel.run("import glob; print(*glob.glob('scorep-*'))").stream().split())


def record(kernel, count=1):
    """Record cells; the directories, in order."""
    made = []
    for _ in range(count):
        said = kernel.run(CELL + "pass").stream()
        made.append(said.strip().rpartition("/")[2])
    return made


@pytest.mark.fresh
def test_the_oldest_recordings_go_and_what_a_person_named_or_sees_stays(kernel, tmp_path):
    kernel.run("import os, shutil")
    first, second, third, fourth = record(kernel, 4)
    kernel.run("%trace 2")  # a view that may be on a screen
    kernel.run(f"open({second!r} + '/notes.txt', 'w').close(); shutil.copytree({third!r}, 'copy')")
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=scorep-20200101_0000_1")
    kernel.run(CELL + "pass")
    kernel.run("del os.environ['SCOREP_EXPERIMENT_DIRECTORY']")
    kernel.run("%env HOLDFAST_TRACE_LIMIT=1k")
    (last,) = record(kernel)
    assert folders(kernel) == {first, second, "scorep-20200101_0000_1", last}
    assert kernel.run("os.path.exists('copy/traces.otf2')").result == "True"
    assert "was removed or moved" in kernel.run("%trace 4").stream("stderr")
    kernel.run("%env HOLDFAST_TRACE_LIMIT=0")
    assert len(record(kernel, 2)) == 2 and last in folders(kernel)


@pytest.mark.fresh
def test_traces_are_listed_and_removed(kernel):
    assert kernel.run("%trace ls").stream() == "There is no trace.\n"
    made = record(kernel, 3)
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run(CELL + "pass")
    kernel.run("import os; del os.environ['SCOREP_EXPERIMENT_DIRECTORY']")
    kernel.run(
        "os.mkdir('scorep-20200101_0000_1'); os.mkdir('data'); open('mine/a.txt', 'w').close()"
    )
    head, *rows, total = kernel.run("%trace ls").stream().splitlines()
    assert head.split() == ["cell", "when", "size", "trace"]
    cells = [re.match(r"(In\[\d+\])?", row)[0] for row in rows]
    assert sorted(cells) == ["", "In[2]", "In[3]", "In[4]", "In[6]"]
    assert any(re.search(r"mine +named by you$", row) for row in rows), rows
    assert total.startswith("5 traces, ")
    for line, said in (
        ("rm", "rm needs the traces"),
        ("rm 2 17", "In[17] has no trace"),
        ("rm data", "data isn't a trace"),
        ("rm /", "/ isn't a trace"),
        ("rm nothing-*", "nothing-* isn't a trace"),
    ):
        assert said in kernel.run(f"%trace {line}").stream("stderr")
    assert folders(kernel) >= set(made), "nothing was removed yet"
    assert kernel.run("%trace rm 2,3").stream().startswith("2 traces removed, ")
    assert folders(kernel) == {made[2], "scorep-20200101_0000_1"}
    text = kernel.run("%trace rm all").stream()
    assert text.startswith("1 trace removed, ") and "mine stays: you named it" in text
    assert kernel.run("%trace rm scorep-2020*").stream().startswith("1 trace removed, ")
    assert "mine stays, with a.txt" in kernel.run("%trace rm mine").stream()
    assert kernel.run("os.listdir('mine')").result == "['a.txt']"


@pytest.mark.fresh
def test_the_recording_of_a_cell_that_died_is_named_by_its_user_only_if_that_was_so(kernel):
    kernel.run("import ctypes, os, signal")
    ends = {"in-process": "os.kill(os.getpid(), signal.SIGKILL)", "forked": "ctypes.string_at(0)"}
    for run, end in ends.items():
        outcome = kernel.run(f"%%execute_with_scorep --run={run}\n{end}")
        assert outcome.content["ename"] == "CellDied", outcome.content
    kernel.run("%env SCOREP_EXPERIMENT_DIRECTORY=mine")
    kernel.run(CELL + "os.kill(os.getpid(), signal.SIGKILL)")
    made = folders(kernel)
    assert len(made) == 2
    text = kernel.run("%trace rm all").stream()
    assert text.startswith("2 traces removed, ") and "mine stays: you named it" in text
    assert all(name not in text for name in made), text


@pytest.mark.fresh
def test_a_comparison_of_other_cells_is_doubted(kernel):
    kernel.run("def f(n): return sum(range(n))\ndef g(): return 1")
    kernel.run(CELL + "f(10)")  # 2
    kernel.run(CELL + "f(20)")  # 3: an edit
    kernel.run(CELL + "import json; json.dumps(g())")  # 4: another cell
    kernel.run(CELL + "f(10)")  # 5
    kernel.run(CELL + "f(10); 1 / 0")  # 6
    for line, said in (
        ("5 2", []),
        ("3 2", []),
        (
            "4 2",
            ["have neither a line nor a function in common. Are these the cells that you mean?"],
        ),
        ("2 5", ["cell In[5], given as the one before, ran after cell In[2]"]),
        ("6 5", ["cell In[6] failed"]),
    ):
        outcome = kernel.run(f"%trace {line} --view compare --text")
        text = outcome.stream("stderr")
        assert [one for one in said if one not in text] == [] and text.count("\n") == len(said)
        assert outcome.stream().startswith(f"cell In[{line[0]}]"), "it is shown all the same"
    for line in ("5 5", "2,5 3,5"):
        text = kernel.run(f"%trace {line} --view compare").stream("stderr")
        assert "is on both sides" in text or "different code" in text
