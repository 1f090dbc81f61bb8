"""The parts of the %perfmonitor commands: lines, ranges, tables, archives, reports."""

import json
import math
import random
import subprocess
import sys
import zipfile

import pandas
import PIL.Image
import pytest

from holdfast.monitor import (
    archive,
    arguments,
    coarse,
    files,
    history,
    perfdata,
    plot,
    ranges,
    report,
)
from holdfast.monitor import sampled, saved
from holdfast.monitor.arguments import FLAG, CommandError, Option
from holdfast.monitor.sampled import Cell
from holdfast.pages import page, picture

MS = 1_000_000


def cell(index, begin, end, **fields):
    given = {"source": f"x = {index}", "wall_begin": 1.7e9, "kind": "plain", "outcome": "ok"}
    given |= {"number": index + 1, "source_cut": False, "pids": [], "begin": [], "end": []}
    return Cell(index=index, begin_ns=begin, end_ns=end, **given | {"peak_bytes": 0.0, **fields})


CELLS = [
    cell(0, 1000 * MS, 2000 * MS, source='print("a,b")\nx = "é"\n'),
    cell(1, 2500 * MS, 2520 * MS, kind="instrumented", outcome="died"),
    cell(2, 3000 * MS, 4000 * MS, outcome="error"),
]
SAMPLES = perfdata.made(
    [1000 * MS, 1500 * MS, 2000 * MS, 2500 * MS, 2520 * MS, 3000 * MS, 4000 * MS],
    [500 * MS, 500 * MS, 500 * MS, 500 * MS, 20 * MS, 480 * MS, 1000 * MS],
    {
        "cpu_util": [0.0, 50.0, 30.0, 0.0, 100.0, 0.0, 10.0],
        "cpu_util_0": [0.0, 100.0, 60.0, 0.0, 100.0, 0.0, 20.0],
        "cpu_util_1": [0.0, 0.0, 0.0, 0.0, 100.0, 0.0, 0.0],
        "memory": [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0],
        "io_write_mb": [0.0, 60.0, 40.0, 0.0, 1.0, 0.0, 0.0],
        "io_write_count": [0.0, 6.0, 4.0, 0.0, 1.0, 0.0, 0.0],
    },
)
STATE = {
    "interval": 0.5,
    "samples": 7,
    "missed": 1,
    "cost_ns": 12_000,
    "cost_share": 2.4e-5,
    "running": True,
}


@pytest.fixture
def record():
    """A session like the monitor's, with numbers that differ."""
    facts = {"cores": 2, "memory_limit": 16.0, "gpus": []}
    state = {**STATE, "levels": ["process"]}
    return archive.Imported("session", CELLS, {"process": SAMPLES}, state, facts)


# ---- lines and ranges


OPTIONS = {
    "--level": Option(),
    "--text": FLAG,
    "--live": Option(arguments.seconds, least=0, most=2),
    "--metrics": Option(most=9),
}


def test_a_line():
    words, given = arguments.parse('"my file.csv" --level user --text', OPTIONS, words_most=1)
    assert words == ["my file.csv"] and given == {"level": "user", "text": True}
    _, given = arguments.parse("--live 0.5 60 --metrics cpu memory --level=user", OPTIONS)
    assert given == {"live": [0.5, 60.0], "metrics": ["cpu", "memory"], "level": "user"}
    assert arguments.parse("--live", OPTIONS)[1] == {"live": []}
    assert arguments.parse("--cell -3:-1", {"--cell": Option()})[1] == {"cell": "-3:-1"}


@pytest.mark.parametrize(
    "line, message",
    [
        ("--lvel user", "there is no option --lvel; did you mean --level?"),
        ("--zzz", "there is no option --zzz; the options are --level, --text, --live, --metrics"),
        ("--level", "--level needs a value"),
        ("--text=no", "--text takes no value"),
        ("file", "'file' is one argument too many"),
        ("--live soon", "'soon' isn't a number of seconds"),
        ("--live -1", "-1 isn't a positive number of seconds"),
        ("--live nan", "nan isn't a positive number of seconds"),
        ('"file', "a quotation mark isn't closed"),
    ],
)
def test_a_wrong_line_is_named_in_one(line, message):
    with pytest.raises(CommandError) as error:
        arguments.parse(line, OPTIONS)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "text, indexes",
    [
        ("1", [1]),
        ("0:1", [0, 1]),
        (":1", [0, 1]),
        ("1:", [1, 2]),
        (":", [0, 1, 2]),
        ("-1", [2]),
        ("-3:-2", [0, 1]),
    ],
)
def test_ranges(text, indexes):
    assert [one.index for one in ranges.choose(text, CELLS)] == indexes


@pytest.mark.parametrize(
    "text, message",
    [
        ("2:1", "the range 2:1 is reversed: did you mean 1:2?"),
        ("3", "there is no cell 3: the cells are 0 to 2"),
        ("0:7", "there is no cell 7: the cells are 0 to 2"),
        ("-4", "there is no cell -4: the cells are 0 to 2"),
        ("last", "'last' isn't a range like 5, 2:8, :5 or 3:"),
        ("1:2:3", "'1:2:3' isn't a range like 5, 2:8, :5 or 3:"),
        ("", "a range is missing; it looks like 5, 2:8, :5 or 3:"),
    ],
)
def test_wrong_ranges(text, message):
    with pytest.raises(CommandError) as error:
        ranges.choose(text, CELLS)
    assert str(error.value) == message


def test_ranges_count_by_index_where_the_oldest_cells_were_dropped():
    assert [one.index for one in ranges.choose("1:", CELLS[1:])] == [1, 2]
    with pytest.raises(CommandError, match="there is no cell 0: the cells are 1 to 2"):
        ranges.choose("0", CELLS[1:])
    with pytest.raises(CommandError, match="no cell has run yet"):
        ranges.choose("1", [])


# ---- tables in files


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_samples_go_to_a_file_and_back(record, suffix, tmp_path):
    table = perfdata.table(SAMPLES, CELLS)
    path = files.write(str(tmp_path / ("perf" + suffix)), table)
    read = pandas.read_csv if suffix == ".csv" else pandas.read_json
    frame = read(path)
    assert list(frame.columns) == [
        "time", "cell_index", "cpu_util", "cpu_util_0", "cpu_util_1", "memory",
        "io_write_count", "io_write_mb",
    ]  # fmt: skip
    assert frame["time"].tolist() == [1.0, 1.5, 2.0, 2.5, 2.52, 3.0, 4.0]
    assert frame["cell_index"].fillna(-1).tolist() == [-1, 0, 0, -1, 1, -1, 2]
    assert frame["io_write_mb"].tolist() == [0, 60, 100, 100, 101, 101, 101]  # a total
    again = perfdata.samples(files.read(path))
    assert again.columns == SAMPLES.columns and again.time == SAMPLES.time


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_cells_go_to_a_file_and_back(suffix, tmp_path):
    path = files.write(str(tmp_path / ("cells" + suffix)), history.table(CELLS))
    read = pandas.read_csv if suffix == ".csv" else pandas.read_json
    assert read(path)["raw_cell"].tolist() == [one.source for one in CELLS]
    assert history.cells(files.read(path)) == CELLS


def test_files_that_are_none_of_ours(tmp_path):
    with pytest.raises(CommandError, match="name must end in .csv or .json"):
        files.write(str(tmp_path / "perf.xlsx"), {"time": []})
    with pytest.raises(CommandError, match="can't be written: No such file or directory"):
        files.write(str(tmp_path / "nowhere" / "perf.csv"), {"time": []})
    with pytest.raises(CommandError, match="can't be read: No such file or directory"):
        files.read(str(tmp_path / "perf.csv"))
    for name, text in (("a.csv", ""), ("b.csv", "a,b\n1\n"), ("c.json", "[1]"), ("d.json", "{")):
        (tmp_path / name).write_text(text)
        with pytest.raises(CommandError, match="isn.t a (CSV|JSON) table"):
            files.read(str(tmp_path / name))
    (tmp_path / "e.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match="isn't a CSV table"):
        files.read(str(tmp_path / "e.csv"))
    with pytest.raises(CommandError, match="the column time is missing"):
        perfdata.check({"memory": []}, "x.csv")
    with pytest.raises(CommandError, match="there is no column raw_cell, start_time, end_time"):
        history.check({"cell_index": []}, "x.csv")


def test_a_cell_longer_than_the_csv_module_takes(tmp_path):
    long = [cell(0, 0, 1, source="x = 1\n" * 50_000)]
    path = files.write(str(tmp_path / "cells"), history.table(long))
    assert path.endswith("cells.csv")
    assert history.cells(files.read(path)) == long


def test_samples_that_jumper_wrote():
    new = {  # since 0.2: rates in bytes a second
        "time": [10.0, 11.0, 13.0],
        "memory": [1.0, 2.0, 3.0],
        "io_read": [0.0, 1048576.0, 2097152.0],
        "io_write": [0.0, 0.0, 0.0],
        "io_read_count": [0.0, 5.0, 5.0],
        "io_write_count": [0.0, 0.0, 0.0],
        "cpu_util_avg": [1.0, 2.0, 3.0],
        "cpu_util_min": [0.0, 0.0, 0.0],
        "cpu_util_max": [2.0, 4.0, 6.0],
        "cpu_util_0": [2.0, 4.0, 6.0],
        "cell_index": [None, 0, 0],
    }
    perfdata.check(new, "perf_process.csv")
    read = perfdata.samples(new)
    assert list(read.columns["cpu_util"]) == [1.0, 2.0, 3.0]
    assert list(read.columns["cpu_util_0"]) == [2.0, 4.0, 6.0]
    assert list(read.columns["io_read_mb"]) == [0.0, 1.0, 4.0]
    assert list(read.columns["io_read_count"]) == [0.0, 5.0, 10.0]
    assert "cpu_util_max" not in read.columns
    old = {  # 0.1: totals of the process
        "time": [1, 2],
        "memory_usage_gb": [4, 5],
        "io_read_mb": [700, 703],
        "cpu_util_avg": [9, 9],
    }
    read = perfdata.samples(old)
    assert list(read.columns["memory"]) == [4.0, 5.0]
    assert list(read.columns["io_read_mb"]) == [0.0, 3.0]


# ---- archives


def test_an_archive_gives_the_same_reports(record, tmp_path):
    path = archive.write(str(tmp_path / "session"), record, "1.0")
    with zipfile.ZipFile(path) as file:
        assert set(file.namelist()) == {"manifest.json", "cell_history.csv", "perf_process.csv"}
        manifest = json.loads(file.read("manifest.json"))
    assert manifest["app"]["name"] == "Holdfast" and manifest["monitor"]["num_cpus"] == 2
    again = archive.read(path.removesuffix(".zip"))
    assert again.cells() == CELLS
    assert not again.state()["running"] and again.state()["missed"] == 1
    for chosen in (CELLS, CELLS[1:2]):
        one, other = (report.make(each, "process", chosen) for each in (record, again))
        assert one.metrics == other.metrics and one.seconds == other.seconds


def test_an_archive_of_jumpers(tmp_path):
    manifest = {
        "version": "1.0",
        "app": {"name": "JUmPER", "version": "0.4.1"},
        "monitor": {
            "interval": 1.0,
            "num_cpus": 4,
            "num_gpus": 1,
            "gpu_name": "A",
            "gpu_memory": 40.0,
            "memory_limits": {"process": 15.4},
        },
        "levels": ["process", "user"],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "cell_history.csv").write_text(
        "cell_index,raw_cell,start_time,end_time,duration,wallclock_start_time,wallclock_end_time,"
        "cell_magics\n0,%perfmonitor_start,10.0,10.5,0.5,1.7,1.7,['perfmonitor_start']\n"
        '1,"a = 1\nb = 2",11.0,13.0,2.0,1.7,1.7,[]\n'
    )
    (tmp_path / "perf_process.csv").write_text(
        "time,memory,io_read_count,io_write_count,io_read,io_write,cpu_util_avg,cpu_util_min,"
        "cpu_util_max,cpu_util_0,cell_index\n"
        "11.0,2.0,0,0,0,0,10,10,10,10,\n12.0,2.0,0,0,1048576,0,20,20,20,20,1\n"
        "13.0,4.0,0,0,0,0,40,40,40,40,1\n"
    )
    with zipfile.ZipFile(tmp_path / "session.zip", "w") as file:
        for name in ("manifest.json", "cell_history.csv", "perf_process.csv"):
            file.write(tmp_path / name, name)
    for path in (tmp_path, tmp_path / "session.zip"):
        read = archive.read(str(path))
        made = report.make(read, "process", ranges.choose("1", read.cells()))
        assert made.metrics["cpu_util"] == (30.0, 20.0, 40.0, None)
        assert made.metrics["memory"] == (3.0, 2.0, 4.0, 15.4)
        assert made.metrics["io_read_mb"] == (0.5, 0.0, 1.0, 1.0)
        assert "GPUs: 1\n    A, 40.00 GB" in report.of_resources(read.resources())


def rewritten(path, change):
    """The archive with other members."""
    with zipfile.ZipFile(path) as file:
        members = {one: file.read(one) for one in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as file:
        for one, data in members.items():
            file.writestr(one, data)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda m: m.update({"../evil.py": b""}),
            "its member '../evil.py' has a path outside of the archive",
        ),
        (
            lambda m: m.update({"/etc/evil": b""}),
            "its member '/etc/evil' has a path outside of the archive",
        ),
        (
            lambda m: m.update(
                {"manifest.json": m["manifest.json"].replace(b"perf_process.csv", b"../x.csv")}
            ),
            "its manifest names an unknown member, '../x.csv'",
        ),
        (lambda m: m.pop("manifest.json"), "it has no manifest.json"),
        (lambda m: m.pop("perf_process.csv"), "it has no perf_process.csv"),
        (lambda m: m.update({"manifest.json": b"{"}), "isn't an archive of a session"),
        (lambda m: m.update({"manifest.json": b"[]"}), "isn't an archive of a session"),
        (lambda m: m.update({"manifest.json": b'{"app": {"name": "zip"}}'}), "written by 'zip'"),
        (
            lambda m: m.update({"perf_process.csv": m["perf_process.csv"][:200]}),
            "isn't an archive of a session",
        ),
        (
            lambda m: m.update(
                {"manifest.json": m["manifest.json"].replace(b'"1.0"', b'"2.0"', 1)}
            ),
            "has format 2.0",
        ),
        (
            lambda m: m.update({"cell_history.csv": b"cell_index,raw_cell\n1,2\n1,2\n1,2\n"}),
            "there is no column start_time, end_time",
        ),
    ],
)
def test_archives_that_are_refused(record, change, message, tmp_path):
    path = archive.write(str(tmp_path / "session.zip"), record, "1.0")
    rewritten(path, change)
    with pytest.raises(CommandError) as error:
        archive.read(path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_broken_archives(record, tmp_path):
    path = archive.write(str(tmp_path / "session.zip"), record, "1.0")
    data = bytearray((tmp_path / "session.zip").read_bytes())
    (tmp_path / "half.zip").write_bytes(data[: len(data) // 2])
    data[60:80] = bytes(20)
    (tmp_path / "bent.zip").write_bytes(data)
    for name in ("half", "bent"):
        with pytest.raises(CommandError, match="isn't an archive of a session|broken archive"):
            archive.read(str(tmp_path / f"{name}.zip"))
    with pytest.raises(CommandError, match="can't be read: No such file"):
        archive.read(str(tmp_path / "none.zip"))
    with pytest.raises(CommandError, match="can't be written"):
        archive.write(str(tmp_path / "none" / "session.zip"), record, "1.0")
    assert archive.read(path).cells() == CELLS


# ---- reports and plots


def test_the_report_has_jumpers_layout(record):
    made = report.make(record, "process", CELLS)
    lines = report.text(made).splitlines()
    assert lines[:4] == [
        "-" * 40,
        "Performance Report",
        "-" * 40,
        "Duration: 2.02s (cells 0 to 2, In [1] to In [3])",
    ]
    assert lines[4].split() == ["Metric", "AVG", "MIN", "MAX", "TOTAL"]
    assert lines[5] == "-" * 65
    rows = {line[:25].rstrip(): line[26:].split() for line in lines[6:-4]}
    assert report.text(report.make(record, "process", CELLS[1:2])).splitlines()[3] == (
        "Duration: 0.0200s (cell 1, In [2])"
    )
    # (1 s of 40 %, 20 ms of 100 %, 1 s of 10 %) / 2.02 s
    assert rows["CPU Util (Across CPUs)"] == ["25.74", "10.00", "100.00", "-"]
    assert rows["Memory (GB)"] == ["2.25", "1.00", "3.00", "16.00"]
    assert rows["I/O Write (MB/s; MB)"] == ["50.00", "0.00", "120.00", "101.00"]
    assert "GPU Util (Across GPUs)" not in rows
    assert lines[-3:] == [
        "Cell 1, In [2]: died.",
        "Cell 2, In [3]: raised.",
        "Level process, a sample every 0.5 s: 7 samples, 1 missed;"
        " the monitor took 12 µs for each, 0.002 % of one CPU.",
    ]
    page = report.page(made)
    assert "<td>25.74</td>" in page and "Duration: 2.02s" in page


def test_what_is_not_known_has_no_part_in_a_figure():
    found = perfdata.made([MS, 2 * MS, 3 * MS], [MS] * 3, {"gpu_util": [math.nan, 40.0, 60.0]})
    assert sampled.of_rows(found, "gpu_util", 0, 3 * MS) == (50.0, 40.0, 60.0, None)
    unknown = perfdata.made([MS], [MS], {"gpu_util": [math.nan]})
    assert sampled.of_rows(unknown, "gpu_util", 0, MS) is None
    table = perfdata.table(found, [])
    assert table["gpu_util"] == [None, 40.0, 60.0]
    assert math.isnan(perfdata.samples(table).columns["gpu_util"][0])


def test_a_report_of_cells_without_samples(record):
    early = cell(0, 0, 10)
    with pytest.raises(CommandError, match="there are no samples of this cell"):
        report.make(record, "process", [early])
    assert report.make(record, "process", [early, CELLS[1]]).cells == CELLS[1:2]


def test_a_cell_of_20_ms_is_drawn_as_a_line(record):
    data = plot.data(record, "process", CELLS[1:2], ["cpu_util", "io_write_mb"])
    cpu, memory, io, operations = data["tracks"]
    assert cpu["time"] == [2500 * MS, 2520 * MS] and cpu["unit"] == "%" and cpu["high"] == 100
    assert [(one["name"], one["values"]) for one in cpu["series"]] == [
        ("all", [100.0, 100.0]),
        ("core 0", [100.0, 100.0]),
        ("core 1", [100.0, 100.0]),
    ]
    shown = [one.get("hidden", False) for one in data["tracks"]]
    assert shown == [False, True, False, True], "the others are there, to be chosen"
    assert io["series"] == [{"name": "written", "values": [50.0, 50.0]}]  # MB a second
    # A recorded cell's own process also writes the trace: the line below the cell leaves that out.
    assert io["name"] == "I/O, recorders' included"
    assert data["cells"][0]["outcome"] == "died"
    assert data["cells"][0]["index"] == 2 and data["title"] == "Performance of cell 1, In [2]"


def noise(count, width, cores=0):
    """Samples that no packing makes small."""
    numbers = random.Random(count)
    names = ["cpu_util", "memory", "io_read_mb", "io_write_mb", "io_read_count", "disk_write_mb"]
    names += [f"cpu_util_{core}" for core in range(cores)]
    columns = {name: [100 * numbers.random() for _ in range(count)] for name in names}
    return perfdata.made([(i + 1) * width for i in range(count)], [width] * count, columns)


def test_rows_below_a_pixel_are_joined_and_nothing_is_lost():
    fine = noise(5000, 10 * MS)
    short = cell(0, 20_005 * MS, 20_025 * MS)
    rows = coarse.joined(fine, coarse.pixel(fine, 50_000 * MS), [short])
    assert 1000 <= len(rows) <= 1005 and rows.time[-1] == fine.time[-1]
    ends = [time // MS for time in rows.time]
    assert {20_000, 20_020} <= {*ends}, "no row reaches over the edge of a cell"
    assert sum(rows.width) == sum(fine.width)
    for name in ("io_read_mb", "disk_write_mb"):
        assert sum(rows.columns[name]) == pytest.approx(sum(fine.columns[name]))
    for name in ("cpu_util", "io_write_mb"):
        ends = (0, 50_000 * MS)
        assert sampled.of_rows(rows, name, *ends) == pytest.approx(
            sampled.of_rows(fine, name, *ends)
        )
    assert coarse.joined(SAMPLES, 1) is SAMPLES
    gap = perfdata.made([MS, 2 * MS, 3 * MS], [MS] * 3, {"gpu_util": [math.nan, 40.0, 60.0]})
    (joined,) = coarse.joined(gap, 10 * MS).columns["gpu_util"]
    assert joined == 50.0


def test_a_plot_has_every_level_and_stays_small():
    levels = {
        "slurm": noise(0, MS),
        "process": noise(8192, MS),
        "user": noise(800, 10 * MS),
        "system": noise(2048, 4 * MS, 128),
    }
    state = {**STATE, "levels": [*levels]}
    whole = cell(0, 0, 8192 * MS)
    data = plot.data(
        archive.Imported("s", [whole], levels, state, {}), "user", [whole], ["cpu_util"]
    )
    assert data["level"] == "user"
    assert {track["level"] for track in data["tracks"]} == {"process", "user", "system"}
    (shown,) = picture.shown(data)
    assert (shown["name"], shown["level"], len(shown["time"])) == ("CPU", "user", 801)
    bundle = page.bundle(data)
    assert "level user" in bundle["text/plain"] and "Memory" not in bundle["image/svg+xml"]
    assert len(bundle["text/html"]) < 500_000
    with pytest.raises(CommandError, match="there are no samples of that"):
        plot.data(archive.Imported("s", [whole], levels, state, {}), "slurm", [whole], ["cpu_util"])


def test_a_plot_in_files(record, tmp_path):
    data = plot.data(record, "process", CELLS, ["cpu_util", "memory", "io_write_mb"])
    assert saved.drawn(str(tmp_path / "made"), data).endswith("made.jpg")
    with PIL.Image.open(tmp_path / "made.jpg") as picture:
        assert picture.format == "JPEG" and picture.width > 1000
        assert len(picture.convert("L").getcolors()) > 20  # not blank
    lines = saved.pickled(str(tmp_path / "made"), data).splitlines()
    assert "made.pkl" in lines[0]
    shows = lines[2:-1] + ["print(*plot._repr_mimebundle_(), plot.data['title'])"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(shows)], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "text/html image/svg+xml application/pdf text/plain"
        " Performance of cells 0 to 2, In [1] to In [3]\n"
    )
    for write in (saved.drawn, saved.pickled):
        with pytest.raises(CommandError, match="can't be written: No such file"):
            write(str(tmp_path / "none" / "made"), data)


def test_metrics_by_our_names_and_jumpers():
    assert plot.metrics(["cpu_summary,memory"]) == ["cpu_util", "memory"]
    assert plot.metrics(["io", "io_read"]) == [
        "io_read_mb", "io_write_mb", "io_read_count", "io_write_count",
    ]  # fmt: skip
    with pytest.raises(CommandError, match="there is no metric energy; there are cpu_util, memory"):
        plot.metrics(["energy"])
    with pytest.raises(CommandError, match="needs a name"):
        plot.metrics([","])


def test_the_history_escapes_what_cells_contain():
    source = "print('</script><b>')\nx"
    page = history.page([cell(7, 0, 2500 * MS, source=source)])
    assert "&lt;/script&gt;&lt;b&gt;" in page and page.count("</script>") == 1
    assert history.text([cell(7, 0, 2500 * MS, source=source)]).splitlines()[1].split() == [
        "7", "[8]", "2.500", *history.rows([cell(7, 0, 2500 * MS)])[0][3:7],
        "print('</script><b>')", "…",
    ]  # fmt: skip


def test_a_script_of_cells(tmp_path):
    path = tmp_path / "made.py"
    files.write_script(str(path), ["x = 1", "%perfmonitor_stop\n!ls\n", "if x:\n    print(x)\n"])
    assert path.read_text() == (
        "#!/usr/bin/env python3\n\nx = 1\n\n# %perfmonitor_stop\n# !ls\n\nif x:\n    print(x)\n"
    )
    compile(path.read_text(), str(path), "exec")
    with pytest.raises(CommandError, match="can't be written"):
        files.write_script(str(tmp_path / "none" / "made.py"), [])
