"""Archives as the views and other programs see them, against what the program did.

The recorder writes a profile of its own beside the trace: what is read back from the trace must be
that. Each file that is exported is read by its own reader, or by its published grammar.
"""

import json
import pstats
import re
import shutil
import subprocess
from array import array
from collections import Counter

import pytest
from recorded_program import record_in

_views = pytest.importorskip("holdfast._views")
from holdfast.views import command, exports, kernel, texts, traces  # noqa: E402
from holdfast.views.traces import LargeExportError, Trace, ViewError, Window  # noqa: E402

PROGRAM = """
import os, random, threading
os.environ["SCOREP_ENABLE_PROFILING"] = "true"
def leaf(n):
    return sum(range(n % 50))
def middle(n):
    return [leaf(i) for i in range(n)]
def deep(n):
    return deep(n - 1) if n else middle(3)
def generate(n):
    for i in range(n):
        yield leaf(i)
def fail():
    raise ValueError
def main():
    for i in range(200):
        middle(i % 7)
    deep(60)
    list(generate(20))
    for _ in range(5):
        try:
            fail()
        except ValueError:
            pass
def threads():
    main()
    others = [threading.Thread(target=main, name=f"other {i}") for i in range(2)]
    for other in others: other.start()
    for other in others: other.join()
record(threads)
"""
# By hand: what main() calls.
CALLS = Counter(main=1, middle=201, deep=61, generate=21, fail=5)
CALLS["leaf"] = sum(i % 7 for i in range(200)) + 3 + 20


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return record_in(tmp_path_factory.mktemp("views"), PROGRAM).path


def calls(trace):
    found = Counter()
    for row in trace.table():
        if row["name"].startswith("__main__:"):
            found[row["name"].partition(":")[2]] += row["visits"]
    return found


def test_every_call_is_counted(recorded):
    found = calls(Trace(recorded))
    assert {name: found[name] for name in CALLS} == {name: 3 * n for name, n in CALLS.items()}
    rows = traces.read(recorded, Window()).found["rows"]
    assert [row["thread"] for row in rows] == ["MainThread", "other 0", "other 1"]
    for row in rows:
        assert sum(row["count"]) == row["calls"] and row["pixel"] == 0 and row["hidden"] == 0


def test_the_profile_is_the_recorders_own(recorded, tmp_path):
    _views.write(recorded, tmp_path / "mine.json", "json")
    mine = json.loads((tmp_path / "mine.json").read_text())
    own = json.loads((recorded.parent / "profile.json").read_text())

    def flat(profile):
        paths = {}
        for location in profile["locations"]:
            names = []
            for node in location["nodes"]:
                above = names[node["parent"]] if node["parent"] is not None else ()
                region = profile["regions"][node["region"]]
                names.append((*above, (region["name"], region["line"])))
                paths[location["name"], names[-1]] = (node["visits"], node["inclusive"])
        return paths

    here, there = flat(mine), flat(own)
    assert here.keys() == there.keys()
    for path, (visits, inclusive) in here.items():
        assert visits == there[path][0]
        # Ticks made ns, by two measurements of the same clock's rate.
        assert inclusive == pytest.approx(there[path][1], rel=0.01, abs=1000)


def test_slices_nest_and_are_bounded(recorded):
    whole = traces.read(recorded, Window(), slices=100_000).found["rows"][0]
    few = traces.read(recorded, Window(), slices=600).found["rows"][0]
    assert len(whole["begin"]) == whole["calls"]
    assert 0 < len(few["begin"]) <= 600 < len(whole["begin"])
    assert sum(few["count"]) == few["calls"] and few["pixel"] > 0
    for row in (whole, few):
        at = list(zip(row["begin"], row["depth"], strict=True))
        assert at == sorted(at)
        ends = {}
        for begin, depth, length in zip(row["begin"], row["depth"], row["duration"], strict=True):
            assert begin >= ends.get(depth, 0)  # none overlaps its neighbour
            ends[depth] = begin + length


def test_a_window_cuts_calls_to_its_borders(recorded):
    whole = traces.read(recorded, Window()).found
    main = next(i for i, name in enumerate(whole["regions"]["name"]) if name == "__main__:main")
    row = whole["rows"][0]
    at = list(row["region"]).index(main)
    _, realtime = _views.span(recorded)
    origin = row["begin"][at] - row["begin"][0]
    assert origin > 0 and realtime > 0
    raw = _views.read(recorded)  # times since the archive's begin
    begin, duration = (array("q", raw["rows"][0][name])[at] for name in ("begin", "duration"))
    cut = Window((begin + duration * 0.25) / 1e9, (begin + duration * 0.5) / 1e9)
    part = Trace(recorded).view("table", cut)
    seconds = {row["name"]: row["inclusive"] for row in part.table()}
    assert seconds["__main__:main"] == pytest.approx(duration / 4e9, rel=0.01)
    assert seconds["__main__:threads"] == pytest.approx(duration / 4e9, rel=0.01)
    assert calls(part)["main"] == 1


def test_a_window_within_one_call(tmp_path):
    trace = record_in(tmp_path, "import time\nrecord(lambda: time.sleep(0.02))")
    raw = _views.read(trace.path)
    begin = array("q", raw["rows"][0]["begin"])[0] / 1e9
    (row,) = Trace(trace.path).view("table", Window(begin + 0.005, begin + 0.01)).table()
    assert row["visits"] == 1 and row["inclusive"] == pytest.approx(0.005, rel=0.001)


def test_paths_are_left_heavy(recorded):
    paths = traces.read(recorded, Window()).found["paths"]
    stack = []
    for depth, visits, inclusive in zip(
        paths["depth"], paths["visits"], paths["inclusive"], strict=True
    ):
        if depth < len(stack):
            assert inclusive <= stack[depth]
        del stack[depth:]
        assert not stack or inclusive <= stack[-1]
        stack.append(inclusive)
        assert visits > 0
    few = {name: array("q", raw) for name, raw in _views.read(recorded, paths=10)["paths"].items()}
    assert len(few["depth"]) == 10 and few["depth"][0] == 0


def test_each_thread_has_its_part_of_the_paths(recorded):
    found = traces.read(recorded, Window()).found
    paths, rows = found["paths"], found["rows"]
    visits, inclusive = [0] * len(paths["region"]), [0] * len(paths["region"])
    for row in rows:
        costs = row["costs"]
        assert list(costs["path"]) == sorted(costs["path"])
        assert sum(costs["visits"]) == row["calls"]
        for path, count, time in zip(*costs.values(), strict=True):
            visits[path] += count
            inclusive[path] += time
    assert (visits, inclusive) == (list(paths["visits"]), list(paths["inclusive"]))


def test_the_part_of_one_thread_is_all(tmp_path):
    trace = record_in(tmp_path, "record(lambda: None)")
    (row,) = traces.read(trace.path, Window()).found["rows"]
    assert "costs" not in row


def test_what_is_open_at_a_fork_is_one_visit(tmp_path):
    trace = record_in(
        tmp_path,
        """
        import os, time
        def child(): time.sleep(0.05)
        def main():
            for _ in range(2):
                if not os.fork():
                    child()
                    r.close()
                    os._exit(0)
                os.wait()
        record(main, children=True)
        """,
    )
    found = {row["name"]: row for row in Trace(trace.path).table()}
    visits = {name: found[name]["visits"] for name in found}
    assert (visits["__main__:main"], visits["forked process"], visits["__main__:child"]) == (
        1,
        2,
        2,
    )
    length = _views.span(trace.path)[0] / 1e9
    assert (
        0.1 < found["forked process"]["inclusive"] and found["__main__:main"]["inclusive"] <= length
    )
    rows = traces.read(trace.path, Window()).found["rows"]
    assert len({row["process"] for row in rows}) == 3


def test_what_waits_is_known_by_its_name(tmp_path):
    trace = record_in(
        tmp_path,
        """
        import queue, subprocess, sys, threading
        def take(): channel.get()
        def wait(): pass
        def main():
            thread = threading.Thread(target=take)
            thread.start()
            wait()
            channel.put(None)
            thread.join()
            subprocess.run([sys.executable, "-c", ""])
        channel = queue.Queue()
        record(main)
        """,
    )
    regions = traces.read(trace.path, Window()).found["regions"]
    waits = {name for name, is_one in zip(regions["name"], regions["waits"], strict=True) if is_one}
    assert {"threading.Condition:wait", "threading.Thread:join"} <= waits
    assert "subprocess.Popen:wait" in waits
    assert not waits & {"__main__:wait", "__main__:take", "queue.Queue:get", "subprocess:run"}


def test_a_page_is_answered_what_a_window_holds(recorded):
    question = {"trace": str(recorded), "begin": 0, "end": 1e3}
    answer = kernel.answer(question)
    assert list(answer) == ["data"] and len(answer["data"]) > 1000
    assert len(kernel.answer({**question, "slices": 0})["data"]) < len(answer["data"])
    for wrong in ({}, {**question, "end": "x"}, {**question, "begin": 2e3, "end": 3e3}):
        assert list(kernel.answer(wrong)) == ["error"]
    assert "no trace" in kernel.answer({**question, "trace": "/nowhere"})["error"]


# ---- exports


def test_pstats_reads_it(recorded, tmp_path):
    stats = pstats.Stats(str(Trace(recorded).export(tmp_path / "trace.pstats"))).stats
    found = Counter()
    for (_, _, name), (_, count, _, _, _) in stats.items():
        found[name.rpartition(":")[2].strip("()")] += count
    assert all(found[name] == 3 * n for name, n in CALLS.items())


NUMBER, TEXT = {"type": "number", "minimum": 0}, {"type": "string"}


def objects(required, optional=None):
    """JSON Schema for a list of objects."""
    known = {**required, **(optional or {})}
    item = {"properties": known, "required": list(required), "additionalProperties": False}
    return {"type": "array", "items": {"type": "object", **item}}


# "Trace Event Format", of what we write: metadata and complete events.
CHROME = objects(
    {"ph": {"enum": ["X", "M"]}, "name": TEXT, "pid": NUMBER, "tid": NUMBER},
    {"ts": NUMBER, "dur": NUMBER, "args": {"type": "object", "required": ["name"]}},
)
# After speedscope's file-format-schema.json: an evented file.
SPEEDSCOPE_EVENT = {"type": {"enum": ["O", "C"]}, "frame": {"type": "integer"}, "at": NUMBER}
SPEEDSCOPE_PROFILE = {
    "type": {"const": "evented"},
    "unit": {"const": "nanoseconds"},
    "name": TEXT,
    "startValue": NUMBER,
    "endValue": NUMBER,
    "events": objects(SPEEDSCOPE_EVENT),
}


def check(schema, value):
    pytest.importorskip("jsonschema").validate(value, schema)


def test_chrome_events(recorded, tmp_path):
    shown = json.loads(Trace(recorded).export(tmp_path / "trace.json").read_text())
    assert shown.keys() == {"displayTimeUnit", "traceEvents"} and shown["displayTimeUnit"] == "ns"
    check(CHROME, [e for e in shown["traceEvents"] if e["ph"] == "M"])
    check(CHROME, shown["traceEvents"][-100:])
    events = shown["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(threads.values()) == ["MainThread", "other 0", "other 1"]
    complete = [event for event in events if event["ph"] == "X"]
    assert all({"name", "ts", "dur", "pid", "tid"} <= event.keys() for event in complete)
    found = Counter(event["name"].rpartition(":")[2] for event in complete)
    assert all(found[name] == 3 * n for name, n in CALLS.items())
    for tid in threads:  # X events of a thread nest, or viewers drop them
        ends = []
        own = [e for e in complete if e["tid"] == tid]
        for event in sorted(own, key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= event["ts"] + 1e-9:
                ends.pop()
            assert not ends or event["ts"] + event["dur"] <= ends[-1] + 1e-3
            ends.append(event["ts"] + event["dur"])


def test_speedscope(recorded, tmp_path):
    shown = json.loads(Trace(recorded).export(tmp_path / "trace.speedscope.json").read_text())
    assert shown["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = shown["shared"]["frames"]
    check(objects({"name": TEXT}, {"file": TEXT, "line": NUMBER}), frames)
    few = [{**profile, "events": profile["events"][-100:]} for profile in shown["profiles"]]
    check(objects(SPEEDSCOPE_PROFILE), few)
    assert shown.keys() == {"$schema", "exporter", "shared", "profiles"}
    assert len(shown["profiles"]) == 3
    found = Counter()
    for profile in shown["profiles"]:
        assert (profile["type"], profile["unit"]) == ("evented", "nanoseconds")
        stack, last = [], profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= last
            last = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                found[frames[event["frame"]]["name"].rpartition(":")[2]] += 1
            else:
                assert event["type"] == "C" and stack.pop() == event["frame"]
        assert not stack and last <= profile["endValue"]
    assert all(found[name] == 3 * n for name, n in CALLS.items())


def test_collapsed_stacks(recorded, tmp_path):
    lines = Trace(recorded).export(tmp_path / "trace.folded").read_text().splitlines()
    matches = [re.fullmatch(r"(.+) (\d+)", line) for line in lines]
    assert all(matches)
    deepest = max((match[1].split(";") for match in matches), key=len)
    assert [name.rpartition(":")[2] for name in deepest].count("deep") == 61
    paths = traces.read(recorded, Window()).found["paths"]
    roots = sum(
        t for depth, t in zip(paths["depth"], paths["inclusive"], strict=True) if depth == 0
    )
    assert sum(int(match[2]) for match in matches) == roots


GRAMMAR = re.compile(  # the callgrind format's specification, as far as it is used
    r"(?:version|creator|positions|events|pid|cmd|part|desc|event|summary|totals): .+|"
    r"(?:fl|fi|fe|fn|cfn|cfl|cfi|ob|cob)=(?:\(\d+\)(?: .+)?|[^(].*)|"
    r"calls=\d+ \d+|[+-]?\d+ \d+|#.*|"
)


def test_callgrind(recorded, tmp_path):
    file = Trace(recorded).export(tmp_path / "callgrind.out.1")
    lines = file.read_text().splitlines()
    assert [line for line in lines if not GRAMMAR.fullmatch(line)] == []
    names, found = {}, Counter()
    for line in lines:
        if match := re.match(r"c?fn=\((\d+)\)(?: (.+))?", line):
            callee = names[match[1]] = match[2] or names[match[1]]
        elif line.startswith("calls="):
            found[callee.rpartition(":")[2]] += int(line.split("=")[1].split()[0])
    assert all(found[name] == 3 * CALLS[name] for name in ("leaf", "middle", "deep"))
    if shutil.which("callgrind_annotate"):
        done = subprocess.run(
            ["callgrind_annotate", str(file)], capture_output=True, text=True, check=True
        )
        assert "__main__:leaf" in done.stdout


def test_what_was_there_stays_where_writing_fails(recorded, tmp_path):
    broken = tmp_path / "traces.otf2"
    broken.write_bytes(b"not an archive")
    kept = tmp_path / "kept.json"
    kept.write_text("mine")
    with pytest.raises(ViewError, match="can't be written"):
        Trace(broken).export(kept)
    assert kept.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept.json", "traces.otf2"]
    with pytest.raises(ViewError, match="No such file"):
        Trace(recorded).export(tmp_path / "nowhere" / "x.json")
    with pytest.raises(ViewError, match="known are"):
        Trace(recorded).export(tmp_path / "x.docx")


@pytest.mark.parametrize("name", ["x.json", "x.speedscope.json"])
@pytest.mark.parametrize("part", [0, 0.5])
def test_the_size_of_a_file_is_known_before_it_is_written(recorded, tmp_path, name, part):
    trace = Trace(recorded)
    if part:
        begins = array("q", _views.read(recorded)["rows"][0]["begin"])
        trace.view("table", Window(begins[round(len(begins) * part)] / 1e9))
    estimated = exports.estimate(trace, tmp_path / name)
    written = trace.export(tmp_path / name).stat().st_size
    assert written > 50_000 and written / 1.5 < estimated < written * 1.5


def test_very_large_files_are_written_on_request_only(recorded, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exports, "LARGE_BYTES", 20_000)
    target = tmp_path / "x.json"
    with pytest.raises(LargeExportError, match=r"would take about [\d.]+ KiB, for [\d,]+ calls"):
        Trace(recorded).export(target)
    assert not list(tmp_path.iterdir())
    command.run(f"{recorded.parent} --export {target}", None)
    assert "--yes" in capsys.readouterr().err and not target.exists()
    command.run(f"{recorded.parent} --export {target} --yes", None)
    assert str(target) in capsys.readouterr().out and target.stat().st_size > 20_000
    # What doesn't grow with the calls is always written.
    assert exports.estimate(Trace(recorded), tmp_path / "x.pstats") is None
    Trace(recorded).export(tmp_path / "x.pstats")


# ---- what isn't right


def test_wrong_archives_are_reported_in_a_line(recorded, tmp_path):
    with pytest.raises(ViewError, match="there is no trace"):
        Trace(tmp_path)
    (tmp_path / "profile.json").write_text("{}")
    with pytest.raises(ViewError, match="SCOREP_ENABLE_TRACING"):
        Trace(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(recorded.parent, copy)
    for path in sorted(copy.rglob("*")):  # each file in turn: cut short, then gone
        if path.suffix in (".otf2", ".def", ".evt"):
            before = path.read_bytes()
            for harm in (before[: len(before) // 2], b"", None):
                path.unlink()
                if harm is not None:
                    path.write_bytes(harm)
                try:
                    Trace(copy).view("table")
                except ViewError as error:
                    assert "\n" not in str(error)
                path.write_bytes(before)
    assert calls(Trace(copy)) == calls(Trace(recorded))


def test_flipped_bytes_break_nothing(recorded, tmp_path):
    import random

    rng = random.Random(3)
    copy = tmp_path / "copy"
    shutil.copytree(recorded.parent, copy)
    files = [path for path in sorted(copy.rglob("*")) if path.suffix in (".def", ".evt")]
    for _ in range(60):
        path = rng.choice(files)
        before = path.read_bytes()
        spoilt = bytearray(before)
        for _ in range(rng.randrange(1, 4)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        path.write_bytes(spoilt)
        try:
            Trace(copy).view("table").data()
        except ViewError as error:
            assert "\n" not in str(error)
        path.write_bytes(before)


def test_windows_that_show_nothing(recorded):
    for window, said in ((Window(3, 1), "empty"), (Window(1e6), "nothing is after")):
        with pytest.raises(ViewError, match=said):
            Trace(recorded).view("table", window)
    with pytest.raises(ViewError, match="no view"):
        Trace(recorded).view("nonsense")
    with pytest.raises(ViewError, match="no run before"):
        Trace(recorded).view("compare")


# ---- as text


def numbers_of(text):
    """By the name, with its indent, the calls and both times in each line of a table."""
    found = {}
    for line in text.splitlines()[2:]:
        if match := re.match(r"( *\S.*?) +([\d,]+) +([\d.]+) +([\d.]+)", line):
            found.setdefault(match[1], (int(match[2].replace(",", "")), float(match[3])))
    return found


def test_each_view_is_a_text_of_its_own(recorded, monkeypatch):
    """`--text --view flame` printed the longest functions, and so did --view callers."""
    trace = Trace(recorded)
    assert texts.of(trace.view("flame")) == texts.tree(trace)
    monkeypatch.setattr(texts, "_SHARE", 0)  # a short call is hidden if another had to wait
    flame = texts.tree(trace, rows=10_000)
    mains = re.findall(r"\n( *)__main__:main +([\d,]+) ", flame)
    assert sum(int(calls) for _, calls in mains) == 3
    for indent, calls in mains:
        below = rf"\n{indent}__main__:main +{calls} .*?\n{indent}  __main__:middle +(\d+) "
        assert int(re.search(below, flame, re.S)[1]) == 200 * int(calls)
    callers = texts.of(trace.view("callers"))
    leaf = re.search(r"\n__main__:leaf .*((?:\n  from .*)+)", callers)[1]
    sums = [int(n.replace(",", "")) for n in re.findall(r"from __main__:\S+ +([\d,]+)", leaf)]
    assert len(sums) >= 2 and sum(sums) == 3 * CALLS["leaf"]
    whole = numbers_of(texts.of(trace.view("table")))
    assert whole["__main__:leaf"][0] == 3 * CALLS["leaf"]


@pytest.mark.parametrize("view", ["timeline", "flame", "callers", "table"])
def test_a_console_gets_the_text(recorded, view):
    trace = Trace(recorded).view(view)
    plain = trace._repr_mimebundle_()["text/plain"]
    assert plain.endswith("\n" + texts.of(trace)) and plain.count("\n") > 5


def test_an_empty_trace_says_why(tmp_path):
    """As with --noinstrumenter."""
    trace = Trace(record_in(tmp_path, "r.open(directory)\nprint(r.close())").path)
    assert not trace.table()
    for view in ("timeline", "flame", "table"):
        assert "No call was recorded. With --noinstrumenter" in texts.of(trace.view(view))
    assert any("--noinstrumenter" in note for note in trace.data()["notes"])
    with pytest.raises(ViewError, match="--noinstrumenter"):
        trace.view("source")
