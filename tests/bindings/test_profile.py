"""The call-path profile: what its files say, to their own readers and against cProfile.

The programs are such that every count is known, or is what cProfile counts; times are
compared with each other only.
"""

import collections
import json
import math
import os
import pstats
import shutil
import subprocess
import sys
import textwrap

import pytest
from cube_reader import Cube
from recorded_program import PRELUDE

pytest.importorskip("holdfast._recorder")

PROGRAM = """
import threading
def leaf(n): return sum(range(n))
def recurse(n): return recurse(n - 1) if n else leaf(5)
def even(n): return odd(n - 1) if n else leaf(1)
def odd(n): return even(n - 1) if n else leaf(2)
def work():
    for i in range(3): leaf(i)
    recurse(4); even(5)
    first = lambda: leaf(1)
    second = lambda: even(2)
    first(); second(); second()
def main():
    work(); recurse(2)
"""
COUNTED = """
import cProfile, marshal
profile = cProfile.Profile(builtins=False)
profile.runcall(main)
profile.dump_stats(sys.argv[1] + ".cprofile")
"""


class Profiled:
    def __init__(self, directory, done):
        self.directory, self.output, self.errors = directory, done.stdout, done.stderr

    def file(self, suffix):
        return str(self.directory / f"profile.{suffix}")

    @property
    def json(self):
        with open(self.file("json"), encoding="utf-8") as file:
            return json.load(file)

    @property
    def stats(self):
        return pstats.Stats(self.file("pstats")).stats

    def paths(self, location):
        """{(name, ...): node}, the regions without their modules."""
        names = [
            (region["name"].partition(":")[2] or region["name"])
            + f":{region['line']}" * ("<lambda>" in region["name"])
            for region in self.json["regions"]
        ]
        found = []
        for node in location["nodes"]:
            above = found[node["parent"]][0] if node["parent"] is not None else ()
            found.append(((*above, names[node["region"]]), node))
        assert len(dict(found)) == len(found)
        return dict(found)

    @property
    def main_paths(self):
        (location,) = [x for x in self.json["locations"] if x["name"] == "MainThread"]
        return self.paths(location)


@pytest.fixture
def profile(tmp_path):
    def run(program, **environ):
        directory = tmp_path / "experiment"
        script = tmp_path / "program.py"
        script.write_text(PRELUDE + textwrap.dedent(program))
        done = subprocess.run(
            [sys.executable, str(script), str(directory)],
            env={**os.environ, "HOLDFAST_RECORDER": "builtin", **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return Profiled(directory, done)

    return run


RECORD = """
record(main, tracing=False, profiling=True)
import json
print(json.dumps(result))
"""


def test_the_files(profile):
    made = profile(PROGRAM + RECORD)
    assert sorted(os.listdir(made.directory)) == [
        "profile.callgrind",
        "profile.cubex",
        "profile.json",
        "profile.pstats",
    ]
    result = json.loads(made.output)
    assert result["profile"] == made.file("json")
    assert result["collapsed"] == 0


def test_times_add_up(profile):
    made = profile(PROGRAM + RECORD)
    paths = made.main_paths
    assert paths["main",]["visits"] == 1
    assert paths["main", "recurse", "recurse", "recurse", "leaf"]["visits"] == 1
    inside = collections.Counter()
    for path, node in paths.items():
        inside[path[:-1]] += node["inclusive"]
        assert 0 < node["min"] <= node["max"] <= node["inclusive"]
        # Each is rounded down by itself: the longest visit is of up to a nanosecond more.
        assert node["min"] * node["visits"] <= node["inclusive"]
        assert node["inclusive"] < (node["max"] + 1) * node["visits"]
    for path, node in paths.items():
        assert node["exclusive"] + inside[path] == node["inclusive"], path


def test_pstats_counts_what_cprofile_counts(profile):
    made = profile(PROGRAM + RECORD + COUNTED)
    script = str(made.directory.parent / "program.py")
    theirs = pstats.Stats(str(made.directory) + ".cprofile").stats

    def counts(stats):
        return {
            key[:2]: (
                values[:2],
                {caller[:2]: its[:2] for caller, its in values[4].items() if caller[0] == script},
            )
            for key, values in stats.items()
            if key[0] == script
        }

    assert counts(made.stats) == counts(theirs)


def expected_flat(made):
    """Functions' and pairs' own and inclusive ns, by looking for each path's name in its own
    beginning: not how the recorder does it."""
    own, inclusive, pair = (collections.Counter() for _ in range(3))
    names = {}
    for i, region in enumerate(made.json["regions"]):
        names[i] = (region["file"] or "~", region["line"], region["name"])
    for location in made.json["locations"]:
        paths = []
        for node in location["nodes"]:
            above = paths[node["parent"]] if node["parent"] is not None else ()
            name = names[node["region"]]
            paths.append((*above, name))
            own[name] += node["exclusive"]
            if name not in above:
                inclusive[name] += node["inclusive"]
            if above and (above[-1], name) not in zip(above, above[1:], strict=False):
                pair[above[-1], name] += node["inclusive"]
    return own, inclusive, pair


def test_pstats_times(profile):
    made = profile(PROGRAM + RECORD)
    own, inclusive, pair = expected_flat(made)
    for key, (_, _, tt, ct, callers) in made.stats.items():
        assert math.isclose(tt, own[key] * 1e-9), key
        assert math.isclose(ct, inclusive[key] * 1e-9), key
        for caller, (_, _, _, its) in callers.items():
            assert math.isclose(its, pair[caller, key] * 1e-9), (caller, key)
    pstats.Stats(made.file("pstats")).sort_stats("cumulative").print_callees()


def callgrind_annotate(made, *options):
    program = shutil.which("callgrind_annotate")
    if program is None:
        pytest.skip("no callgrind_annotate")
    done = subprocess.run(
        [program, "--threshold=100", "--auto=no", "--show-percs=no", *options]
        + [made.file("callgrind")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    found, total = {}, None
    for line in done.stdout.splitlines():
        count, _, rest = line.strip().partition(" ")
        if not count.replace(",", "").isdigit():
            continue
        number = int(count.replace(",", ""))
        if "PROGRAM TOTALS" in rest:
            total = number
        else:
            found[rest.strip().split(" [")[0].rpartition("/")[2]] = number
    return found, total


def test_callgrind(profile):
    """Its own reader's times are those of the profile, also of functions that recurse, and of
    two of one name."""
    made = profile(PROGRAM + RECORD)
    own, inclusive, _ = expected_flat(made)
    shared = collections.Counter((file, name) for file, _, name in own)

    def keyed(times):
        return {
            f"{os.path.basename(file)}:{name}" + f":{line}" * (shared[file, name] > 1): ns
            for (file, line, name), ns in times.items()
            if file.endswith("program.py")
        }

    shown, total = callgrind_annotate(made)
    assert total == sum(own.values())
    assert {name: ns for name, ns in shown.items() if name in keyed(own)} == keyed(own)
    shown, _ = callgrind_annotate(made, "--inclusive=yes")
    inclusive = keyed(inclusive)
    assert {name: ns for name, ns in shown.items() if name in inclusive} == inclusive


THREADS = """
def main():
    threads = [threading.Thread(target=work, name=f"<w{i}> & \\x01") for i in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    odd(1)
"""


def test_cube(profile):
    made = profile(PROGRAM + THREADS + RECORD)
    cube = Cube(made.file("cubex"))
    written = made.json
    assert cube.locations == [x["name"].replace("\x01", "?") for x in written["locations"]]
    assert cube.processes == written["processes"]
    assert len(cube.locations) == 4
    rows = {path: i for i, path in enumerate(cube.paths)}
    assert len(rows) == len(cube.paths)
    names = [(region["name"], region["line"]) for region in written["regions"]]
    seen = set()
    for column, location in enumerate(written["locations"]):
        paths = []
        for node in location["nodes"]:
            above = paths[node["parent"]] if node["parent"] is not None else ()
            paths.append((*above, names[node["region"]]))
            row = rows[paths[-1]]
            seen.add((row, column))
            for metric, key, scale in [
                ("visits", "visits", 1),
                ("time", "exclusive", 1e-9),
                ("min_time", "min", 1e-9),
                ("max_time", "max", 1e-9),
            ]:
                assert math.isclose(cube.values[metric][row][column], node[key] * scale)
    assert cube.regions["__main__:leaf"].get("mod").endswith("program.py")
    for row in range(len(cube.paths)):
        for column in range(4):
            if (row, column) not in seen:
                assert cube.values["visits"][row][column] == 0
                assert cube.values["time"][row][column] == 0
                assert cube.values["min_time"][row][column] == sys.float_info.max
                assert cube.values["max_time"][row][column] == -sys.float_info.max


def cube_tool(name, *arguments):
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"no {name}")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def test_cubes_own_tools(profile, tmp_path):
    made = profile(PROGRAM + THREADS + RECORD)
    cube_tool("cube_info", made.file("cubex"))
    assert "__main__:main" in cube_tool("cube_stat", "-p", made.file("cubex"))
    table = cube_tool(
        "cube_dump", "-m", "visits,time,min_time,max_time", "-x", "incl", "-z", "excl", "-t",
        "aggr", "-s", "csv2", made.file("cubex"),
    )  # fmt: skip
    head, *lines = table.strip().splitlines()
    cube = Cube(made.file("cubex"))
    found = {}
    for line in lines:
        fields = dict(zip(head.split(","), line.split(","), strict=True))
        found[int(fields["Cnode ID"])] = fields
    assert len(found) == len(cube.paths)
    for row, fields in found.items():
        assert int(float(fields["visits"])) == sum(cube.values["visits"][row])
        assert math.isclose(float(fields["time"]), sum(cube.values["time"][row]), rel_tol=1e-3)
        least, most = min(cube.values["min_time"][row]), max(cube.values["max_time"][row])
        assert math.isclose(float(fields["min_time"]), least, rel_tol=1e-3)
        assert math.isclose(float(fields["max_time"]), most, rel_tol=1e-3)


DEEP = """
sys.setrecursionlimit(200_000)
def down(n):
    if n: down(n - 1)
def main():
    down(99_999)
    down(5)
def deep():
    threading.current_thread().name = "MainThread"
    try:
        record(main, tracing=False, profiling=True)
        print(json.dumps(result))
    finally:
        done.release()
import _thread, json, threading
threading.stack_size(1 << 29)
done = threading.Lock(); done.acquire()
_thread.start_new_thread(deep, ()); done.acquire()  # no function in Python that would be recorded
"""


def test_deep_recursion_is_collapsed_and_reported(profile):
    made = profile(DEEP)
    paths = made.main_paths
    deepest = max(paths, key=len)
    assert len(deepest) == 1001
    (collapsed,) = [r for r in made.json["regions"] if r["kind"] == "artificial"]
    assert collapsed["name"] == "COLLAPSE"
    assert sum(node["visits"] for node in paths.values()) == 1 + 100_000 + 6
    assert paths[deepest]["visits"] == 100_000 - 999
    assert made.json["collapsed"] == json.loads(made.output)["collapsed"] == 100_000 - 999
    assert len(Cube(made.file("cubex")).paths) == 1001
    assert os.path.getsize(made.file("json")) < 300_000
    assert sum(calls for _, calls, *_ in made.stats.values()) == 1 + 100_000 + 6


def test_a_full_buffer_has_a_node_of_its_own(profile):
    made = profile(
        """
        def leaf(): pass
        def main():
            for _ in range(20_000): leaf()
        """
        + textwrap.indent(RECORD, "        "),
        SCOREP_TOTAL_MEMORY="1k",
    )
    result, paths = json.loads(made.output), made.main_paths
    flushes = {path: node for path, node in paths.items() if path[-1] == "BUFFER FLUSH"}
    assert paths["main", "leaf"]["visits"] == 20_000
    assert sum(node["visits"] for node in flushes.values()) == result["flushes"] > 1
    taken = sum(node["inclusive"] for node in flushes.values())
    assert math.isclose(taken / 1e9, result["flush_seconds"], rel_tol=0.01)
    (main,) = [node for path, node in paths.items() if path == ("main",)]
    inside = sum(node["inclusive"] for path, node in paths.items() if len(path) == 2)
    assert main["inclusive"] - inside == main["exclusive"]
    assert result["collapsed"] == 0


def test_cube_reads_the_deepest(profile):
    made = profile(DEEP)
    shown = cube_tool("cube_calltree", "-m", "visits", made.file("cubex"))
    assert len(shown.splitlines()) >= 1001


def test_depth_is_settable(profile):
    made = profile(DEEP, SCOREP_PROFILING_MAX_CALLPATH_DEPTH="10")
    assert max(map(len, made.main_paths)) == 11
    assert made.errors == ""


MANY_PATHS = """
def a(n, k):
    if n: (a if k & 1 else b)(n - 1, k >> 1)
def b(n, k):
    if n: (a if k & 1 else b)(n - 1, k >> 1)
def main():
    for k in range(4096): a(12, k)
"""


def test_memory_is_bounded(profile):
    """A program with as many paths as calls keeps within SCOREP_TOTAL_MEMORY; none is lost."""
    made = profile(
        MANY_PATHS + RECORD,
        SCOREP_TOTAL_MEMORY="96000",
    )
    paths = {path: node for path, node in made.main_paths.items() if path[-1] != "BUFFER FLUSH"}
    assert sum(node["visits"] for node in paths.values()) == 1 + 4096 * 13
    regular = [path for path in paths if path[-1] != "COLLAPSE"]
    assert len(regular) == 1000
    assert made.json["collapsed"] > 0


@pytest.mark.parametrize(
    ("given", "suffixes"),
    [
        ("none", []),
        ("JSON", ["json"]),
        ("cube4", ["cubex"]),
        ("pstats, callgrind", ["callgrind", "pstats"]),
        ("cube_tuple", ["cubex"]),
        ("thread_sum", ["cubex"]),
    ],
)
def test_formats(profile, given, suffixes):
    made = profile(PROGRAM + THREADS + RECORD, SCOREP_PROFILING_FORMAT=given)
    assert sorted(os.listdir(made.directory)) == [f"profile.{suffix}" for suffix in suffixes]
    assert ("isn't written here" in made.errors) == (given == "cube_tuple")
    named = json.loads(made.output)["profile"]
    assert (named is not None and os.path.exists(named)) == bool(suffixes)


def test_threads_are_summed(profile):
    made = profile(PROGRAM + THREADS + RECORD, SCOREP_PROFILING_FORMAT="json,thread_sum")
    cube = Cube(made.file("cubex"))
    assert cube.locations == ["4 threads"]
    visits = sum(n["visits"] for location in made.json["locations"] for n in location["nodes"])
    assert sum(row[0] for row in cube.values["visits"]) == visits
    least = min(n["min"] for location in made.json["locations"] for n in location["nodes"])
    assert math.isclose(min(row[0] for row in cube.values["min_time"]), least * 1e-9)


def test_the_name(profile):
    made = profile(
        PROGRAM + RECORD, SCOREP_PROFILING_BASE_NAME="mine", SCOREP_PROFILING_FORMAT="json"
    )
    assert os.listdir(made.directory) == ["mine.json"]
    made = profile(
        PROGRAM + RECORD, SCOREP_PROFILING_BASE_NAME="a/b", SCOREP_PROFILING_FORMAT="json"
    )
    assert os.listdir(made.directory) == ["profile.json"]
    assert "not a file's name" in made.errors


def test_strange_names(profile):
    """What a format can't say is replaced, and the files stay readable."""
    name = 'a<b>&\\"c\\n\\x07\\ufffe \\U0001f600 (7) fn=x'
    made = profile(f"""
        def main():
            r.region_begin("user:{name}", None, 0); r.region_end("user:{name}")
        {RECORD.replace(chr(10), chr(10) + " " * 8)}
    """)
    written = f"user:{name}".encode("ascii").decode("unicode_escape")
    assert written in [region["name"] for region in made.json["regions"]]
    shown = written.replace("\n", "?").replace("\x07", "?").replace("\ufffe", "?")
    assert shown in Cube(made.file("cubex")).regions
    assert ("~", 0, written) in made.stats
    found, _ = callgrind_annotate(made)
    assert any("\U0001f600" in key for key in found)


def test_an_unwritable_profile_is_an_error(profile):
    made = profile("""
        import os
        def main(): pass
        r.open(directory, tracing=False, profiling=True)
        os.mkdir(directory + "/profile.json")
        try: r.close()
        except OSError as error: print(error)
    """)
    assert "profile.json" in made.output
    assert os.path.exists(made.file("cubex"))
