"""The %perfmonitor commands in a notebook."""

import json
import os
import signal
import zipfile

import pandas
import pytest
from nvml import pretended_nvml
from waiting import complete, until

from tests.conftest import kernel_starter

CELL = "%%execute_with_scorep\n"
BURN = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: pass"


def rows(text):
    """The table of a report: name, and what stands in its columns."""
    lines = text.split("-" * 65 + "\n")[1].splitlines()
    table = {line[:25].rstrip(): line[26:].split() for line in lines}
    return {
        name: [None if value == "-" else float(value) for value in values]
        for name, values in table.items()
    }


def shown(outcome):
    """What a cell displayed, by MIME type."""
    return [m["content"]["data"] for m in outcome.messages if m["msg_type"] == "display_data"]


def complaint(kernel, line):
    """The one line on stderr by which a command says what is wrong; the notebook goes on."""
    outcome = kernel.run(line + "\nafter = 1")
    assert outcome.status == "ok" and outcome.stream() == "" and not shown(outcome)
    text = outcome.stream("stderr")
    assert text.count("\n") == 1 and text.startswith(line.split()[0] + ": ")
    return text.partition(": ")[2].strip()


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A kernel that was monitored and isn't any more. Its cells are the numbers below."""
    place = tmp_path_factory.mktemp("cells")
    with kernel_starter(place) as start:
        kernel = start(env={"HOLDFAST_RUN": "isolated"})
        kernel.place = place
        assert "every 0.02 s, and PSS" in kernel.run("%perfmonitor_start 0.02 --pss").stream()
        kernel.run(BURN.format(0.4))  # 1
        kernel.run(BURN.format(0.02))  # 2
        kernel.run("open('out', 'wb').write(bytes(50 << 20)); 1 / 0")  # 3
        assert kernel.run(CELL + BURN.format(0.3)).status == "ok"  # 4
        assert kernel.run(CELL + "import os; os.abort()").status == "error"  # 5
        kernel.run("data = bytearray(b'x') * (300 << 20)")  # 6
        assert "stopped" in kernel.run("%perfmonitor_stop").stream()  # 7
        yield kernel


def test_reports_after_the_stop(cells):
    kernel = cells
    cores = float(kernel.run("import os; len(os.sched_getaffinity(0))").result)

    def report(cell):
        outcome = kernel.run(f"%perfmonitor_perfreport --text --cell {cell}")
        text = outcome.stream()
        assert not outcome.stream("stderr")
        return text, rows(text)

    text, burnt = report(1)
    head = "-" * 40 + "\nPerformance Report\n" + "-" * 40 + "\nDuration: "
    duration = float(text.removeprefix(head).partition("s (cell 1, In [2])\n")[0])
    share = 100 * burnt["CPU Time (s)"][3] / duration / cores
    assert burnt["CPU Util (Across CPUs)"][0] == pytest.approx(share, rel=0.05)
    assert 0 < burnt["Memory (GB)"][1] <= burnt["Memory (GB)"][0] <= burnt["Memory (GB)"][2]
    assert burnt["Memory (GB)"][3] > 0.5  # what there may be
    for name in ("PSS", "USS"):
        assert 0 < burnt[f"Memory, {name} (GB)"][0] <= burnt["Memory (GB)"][2]
    text, _ = report(2)
    assert "(cell 2, In [3])" in text
    text, raised = report(3)
    assert raised["I/O Write (MB/s; MB)"][3] == pytest.approx(50, abs=0.5)
    assert "Cell 3, In [4]: raised." in text
    for cell, used in ((1, 0.4), (2, 0.02), (4, 0.3)):
        found = report(cell)[1]["CPU Time (s)"][3]
        # It says itself when its code begins and ends. In between IPython does a little, which takes
        # longer where others use the caches.
        assert 0.99 * used <= found <= 1.05 * used + 0.02
    text, _ = report(5)
    assert "Cell 5, In [6]: died." in text
    _, grown = report(6)
    assert grown["Memory (GB)"][2] - grown["Memory (GB)"][1] == pytest.approx(0.293, rel=0.05)
    text, several = report("1:4")
    assert "(cells 1 to 4, In [2] to In [5])" in text
    assert several["CPU Time (s)"][3] == pytest.approx(
        sum(report(cell)[1]["CPU Time (s)"][3] for cell in range(1, 5)), abs=0.02
    )
    assert "missed; the monitor took" in text
    (data,) = shown(kernel.run("%perfmonitor_perfreport --cell 1"))
    assert rows(data["text/plain"]) == burnt and "<td>CPU Time (s)</td>" in data["text/html"]
    assert "Duration" in kernel.run("%perfmonitor_perfreport --text").stream()


def test_what_makes_workers_is_no_time_of_a_cell(start_kernel):
    """While it runs, processes are made that wait for the next ones: a helper takes milliseconds for each."""
    kernel = start_kernel()
    kernel.run("%perfmonitor_start 0.02")
    kernel.run(
        "from holdfast.worker.ipython import shell\nword, said = shell.word, []\n"
        "def note(**how): said.append(word(**how)); return said[-1]\nshell.word = note"
    )
    for _ in range(2):
        kernel.run("at = len(said)\n" + BURN.format(0.1))
        own = kernel.run("(said[at]['cpu_ns'] - said[at - 1]['cpu_ns']) / 1e9").result
        text = kernel.run("%perfmonitor_perfreport --text --cell -2").stream()
        assert rows(text)["CPU Time (s)"][3] == pytest.approx(float(own), abs=6e-4)


def test_a_worker_that_had_to_be_killed_is_no_time_of_a_cell(start_kernel):
    """It was released and didn't end, and nobody knows it any more by the time at which it has."""
    kernel = start_kernel(env={"HOLDFAST_RUN": "isolated"})
    main = int(kernel.run("import os, time\nos.getpid()").result)
    kernel.run("%perfmonitor_start 0.02")
    complete(kernel)
    standbys = kernel.workers() - {main}
    for pid in standbys:
        os.kill(pid, signal.SIGSTOP)
    # Others are to replace them, with the module.
    wait = f"while any(os.path.exists(f'/proc/{{pid}}') for pid in {standbys}): time.sleep(0.01)"
    code = (
        f"begin = time.process_time()\nimport xxlimited\n{wait}\nown = time.process_time() - begin"
    )
    assert kernel.run(code).status == "ok"
    text = kernel.run("%perfmonitor_perfreport --text --cell -1").stream()
    assert rows(text)["CPU Time (s)"][3] < float(kernel.run("own").result) + 0.03


def test_plots_histories_and_files(cells):
    kernel, place = cells, cells.place
    (data,) = shown(kernel.run("%perfmonitor_plot --cell 1:6"))
    assert data["text/plain"].startswith("Performance of cells 1 to 6")
    assert data["image/svg+xml"].startswith("<svg") and "Memory" in data["image/svg+xml"]
    outcome = kernel.run(
        "%perfmonitor_plot --metrics cpu_summary --cell 2 --save-jpeg p --pickle p"
    )
    assert "The plot is in p.jpg\nThe plot is in p.pkl. " in outcome.stream()
    assert (place / "p.jpg").read_bytes()[:3] == b"\xff\xd8\xff"
    (data,) = shown(outcome)
    assert "Memory" not in data["image/svg+xml"]
    again = kernel.run("import pickle\npickle.load(open('p.pkl', 'rb'))").messages
    (result,) = (one["content"] for one in again if one["msg_type"] == "execute_result")
    assert result["data"]["image/svg+xml"] == data["image/svg+xml"]

    (data,) = shown(kernel.run("%cell_history"))
    lines = data["text/plain"].splitlines()
    assert len(lines) == 1 + int(lines[-1].split()[0]) + 1
    assert "1 / 0" in lines[4] and " error " in lines[4] and " died " in lines[6]
    assert "%%execute_with_scorep" in data["text/html"]
    assert shown(kernel.run("%show_cell_history"))

    for suffix, read in (("csv", pandas.read_csv), ("json", pandas.read_json)):
        out = kernel.run(f"%perfmonitor_export_perfdata p.{suffix} --level process").stream()
        frame = read(place / f"p.{suffix}")
        assert out == f"{len(frame)} samples are in p.{suffix}\n"
        assert set(frame) >= {
            "time",
            "cell_index",
            "cpu_util",
            "memory",
            "memory_pss",
        } | {f"io_{way}_{what}" for way in ("read", "write") for what in ("count", "mb")}
        written = frame[frame["cell_index"] == 3]["io_write_mb"]
        assert frame["io_write_mb"].max() >= 50 and len(written)
        kernel.run(f"%perfmonitor_export_cell_history --file c.{suffix}")
        cells_frame = read(place / f"c.{suffix}")
        assert cells_frame["outcome"].tolist()[3:6] == ["error", "ok", "died"]
        assert cells_frame["duration"][1] >= 0.4
        for what in ("perfdata", "cell_history"):
            name = f"loaded_{what}_df"
            kernel.run(f"%perfmonitor_load_{what} {what[0]}.{suffix}")
            assert kernel.run(f"len({name})").result == str(
                len(frame if what == "perfdata" else cells_frame)
            )
    kernel.run("%perfmonitor_export_perfdata --level system\n%perfmonitor_export_cell_history")
    found = kernel.run("sorted(c for c in perfdata_df if c.startswith('cpu_util_'))").result
    assert "'cpu_util_0'" in found
    assert (
        kernel.run("list(cell_history_df['raw_cell'])[0]").result
        == "'%perfmonitor_start 0.02 --pss'"
    )


def test_a_session_goes_to_an_archive_and_back(cells):
    kernel, place = cells, cells.place
    before = kernel.run("%perfmonitor_perfreport --text --cell 1:6").stream().splitlines()
    assert kernel.run("%export_session mine").stream() == "The session is in mine.zip\n"
    with zipfile.ZipFile(place / "mine.zip") as file:
        manifest = json.loads(file.read("manifest.json"))
        assert set(file.namelist()) == {"manifest.json", *manifest["rows"]}
    kernel.run("more = 1")
    assert "now" in kernel.run("%import_session mine.zip").stream()
    after = kernel.run("%perfmonitor_perfreport --text --cell 1:6").stream().splitlines()
    assert after[:-1] == before[:-1] and "missed" in after[-1]
    (data,) = shown(kernel.run("%perfmonitor_plot --cell 1"))
    assert "Performance of cell 1" in data["text/plain"]
    assert complaint(kernel, "%perfmonitor_plot --live").startswith(
        "an imported session can't be plotted live"
    )
    (place / "broken.zip").write_bytes((place / "mine.zip").read_bytes()[:2000])
    assert "isn't an archive of a session" in complaint(kernel, "%import_session broken.zip")
    kernel.run("%perfmonitor_start\n%perfmonitor_stop")
    assert "more = 1" in shown(kernel.run("%cell_history"))[0]["text/plain"]


def test_what_is_wrong_is_reported_in_one_line(kernel):
    assert complaint(kernel, "%perfmonitor_stop") == "the monitor isn't running"
    assert complaint(kernel, "%perfmonitor_start soon") == "'soon' isn't a number of seconds"
    assert complaint(kernel, "%perfmonitor_start 0") == "0 isn't a positive number of seconds"
    assert "0.001" in complaint(kernel, "%perfmonitor_start 1e-9")
    assert complaint(kernel, "%perfmonitor_start 1 2") == "'2' is one argument too many"
    assert complaint(kernel, "%perfmonitor_perfreport --levl user").endswith(
        "did you mean --level?"
    )
    assert complaint(kernel, "%perfmonitor_perfreport --level cluster").startswith(
        "there is no level cluster here; there are process,"
    )
    assert "is reversed" in complaint(kernel, "%perfmonitor_perfreport --cell 2:1")
    assert "there is no cell 99" in complaint(kernel, "%perfmonitor_perfreport --cell 99")
    assert "there is no metric energy" in complaint(kernel, "%perfmonitor_plot --metrics energy")
    assert "isn't running" in complaint(kernel, "%perfmonitor_plot --live")
    kernel.run("%perfmonitor_start 0.1")
    assert "can't be written" in complaint(kernel, "%perfmonitor_export_perfdata /proc/none/p.csv")
    assert "must end in .csv" in complaint(kernel, "%perfmonitor_export_cell_history cells.xls")
    assert "can't be read" in complaint(kernel, "%import_session none.zip")
    assert "the file is missing" in complaint(kernel, "%perfmonitor_load_perfdata")
    assert "quotation mark" in complaint(kernel, '%export_session "half')


def test_gpus(tmp_path):
    """Pretended: NVIDIA's library, with two GPUs that are used by 50 and 51 %."""
    library = pretended_nvml(tmp_path)
    with kernel_starter(tmp_path) as start:
        kernel = start(env={"HOLDFAST_NVML": library})
        kernel.run("%perfmonitor_start 0.02")

        def report():  # the driver answers while cells run, and isn't waited for
            kernel.run("import time; time.sleep(0.1)")
            found = shown(kernel.run("%perfmonitor_perfreport --level system"))
            text = found[0]["text/plain"] if found else ""
            return text if "GPU Util (Across GPUs)" in text else ""

        seen = rows(until(report))
        assert seen["GPU Util (Across GPUs)"][:3] == [50.5] * 3
        assert seen["GPU Bandwidth (%)"][:3] == [20.5] * 3
        used, total = (2 * size / 2**30 for size in (2e9, 8e9))
        memory = seen["GPU Memory (GB)"]
        assert memory[:3] == [pytest.approx(used, abs=0.01)] * 3
        assert memory[3] == pytest.approx(total, abs=0.01)
        kernel.run("%perfmonitor_export_perfdata --file gpus.csv --level system")
        columns = pandas.read_csv(tmp_path / "gpus.csv").columns
        assert {"gpu_util", "gpu_util_0", "gpu_util_1", "gpu_mem", "gpu_mem_1"} <= set(columns)
        assert shown(kernel.run("%perfmonitor_plot --metrics gpu_util_summary --level system"))


def test_help_resources_and_scripts(kernel, tmp_path):
    text = kernel.run("%perfmonitor_help").stream()
    for line in (
        "%perfmonitor_start [INTERVAL]",
        "%import_session FILE",
        "2:8",
        "io_read_mb",
        "--cell 3:",
    ):
        assert line in text
    text = kernel.run("%perfmonitor_resources").stream()
    assert "CPUs: " in text and "Memory: " in text and "GPUs: " in text
    kernel.run("%start_write_script made.py")
    kernel.run("a = 1")
    kernel.run("%who")
    assert "2 cells" in kernel.run("%end_write_script").stream()
    assert "a = 1\n\n# %who\n" in (tmp_path / "made.py").read_text()


def test_cells_of_a_multi_cell_step(isolated_kernel):
    kernel = isolated_kernel
    kernel.run("%perfmonitor_start 0.05")
    kernel.run("%%enable_multicellmode")
    kernel.run(BURN.format(0.2))
    kernel.run(BURN.format(0.2))
    assert kernel.run("%%finalize_multicellmode").status == "ok"
    text = kernel.run("%perfmonitor_perfreport --text --cell -1").stream()
    assert rows(text)["CPU Time (s)"][3] == pytest.approx(0.4, abs=0.1)


def test_who_uses_no_command_imports_nothing_of_it(isolated_kernel):
    kernel = isolated_kernel
    ours = "sorted(m for m in __import__('sys').modules if m.startswith('holdfast.monitor'))"
    least = "['holdfast.monitor', 'holdfast.monitor.registration']"
    assert kernel.run(ours).result == least
    assert kernel.run(CELL + ours).result == least
    kernel.run("%perfmonitor_help")
    assert kernel.run(ours).result != least


def test_a_notebook_for_jumper(kernel):
    assert "%perfmonitor_help" in kernel.run("%load_ext jumper_extension").stream()
    kernel.run("%perfmonitor_fast_setup")
    assert shown(kernel.run("x = 1"))
    kernel.run("%load_ext holdfast")  # the same commands again
    (data,) = shown(kernel.run("x"))  # and one report
    assert kernel.run("import jumper_extension; jumper_extension.__name__").status == "ok"


def test_a_live_plot_ends_by_itself(kernel):
    living = "sum(t.name == 'holdfast-live-plot' for t in threading.enumerate())"
    assert "isn't running" in complaint(kernel, "%perfmonitor_plot --live")
    kernel.run("import threading, time\n%perfmonitor_start 0.05")
    outcome = kernel.run("%perfmonitor_plot --live 0.1 1")
    plot, adds = (
        message["content"]["transient"]["display_id"]
        for message in outcome.messages
        if message["msg_type"] == "display_data"
    )
    found = []
    while found.count(adds) < 2:  # new samples, while a cell runs
        found += updates(kernel.run("time.sleep(0.4)"))
    assert plot not in found
    ended = updates(kernel.run(f"%perfmonitor_stop\nwhile {living}: time.sleep(0.05)"))
    assert ended[-2:] == [plot, adds]  # all of it, for a notebook that is saved
    assert "a live plot needs a plain cell" in kernel.run(
        "%%execute_with_scorep --run=isolated\n%perfmonitor_start 0.05\n%perfmonitor_plot --live"
    ).stream("stderr")


def updates(outcome):
    """The displays that were updated under a cell."""
    return [
        message["content"]["transient"]["display_id"]
        for message in outcome.messages
        if message["msg_type"] == "update_display_data"
    ]
