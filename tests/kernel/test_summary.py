"""The line below a recorded cell says what the cell did, as far as that is known."""

import json
import re
from html.parser import HTMLParser

import effort
import pytest
from waiting import complete

CELL = "%%execute_with_scorep\n"
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def summary(outcome):
    """The text of the one display that is marked as the summary, or None."""
    if not outcome.summaries:
        return None
    (data,) = outcome.summaries
    plain = re.sub(r"<[^>]*>", "", data["text/html"])
    assert plain == data["text/plain"] + " &middot; %trace shows where"
    return data["text/plain"]


class Terms(HTMLParser):
    """Of the line's HTML: the text of each element with a title, and the title."""

    def __init__(self, html):
        super().__init__()
        self.found, self._title = [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self._title = dict(attributes).get("title")

    def handle_data(self, text):
        if self._title is not None:
            self.found.append((text, self._title))
        self._title = None


def number(pattern, text):
    match = re.search(pattern, text)
    assert match, (pattern, text)
    value = float(match[1].replace(",", ""))
    return value * SIZES[match[2]] if match.re.groups == 2 else value


BYTES = r"([\d.]+) (B|KiB|MiB|GiB)"


def test_it_says_what_the_cell_did(either_kernel, tmp_path):
    kernel = either_kernel
    kernel.run("def f(): pass\nimport os, time\nkept = None")
    outcome = kernel.run(
        CELL + "for _ in range(3000): f()\n"
        "block = bytearray(os.urandom(1)) * (64 << 20)\n"
        "kept = block[:32 << 20]\ndel block\n"
        f"with open({str(tmp_path / 'written')!r}, 'wb', 0) as file: _ = file.write(b'x' * (5 << 20))\n"
        "end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    )
    text = summary(outcome)
    # 3000 calls and the cell; a function or two of the standard library's in Python.
    assert 6002 <= number(r"([\d,]+) events", text) <= 6010
    assert number(rf"wrote {BYTES}", text) == pytest.approx(5 << 20, rel=0.05)
    peak = number(rf"memory up to {BYTES}", text)
    grown = number(rf"\(\+{BYTES}\)", text)
    assert (32 << 20) * 0.95 < grown < (32 << 20) * 1.3
    assert peak > grown + (60 << 20)
    cores = outcome.cost["cpu_ms"] / outcome.cost["run_ms"]
    assert number(r"on ([\d.]+) cores", text) == pytest.approx(cores, abs=0.051)
    assert re.search(r"; in [\d.]+ m?s.*, out [\d.]+ m?s", text)
    assert outcome.cost["cpu_ms"] > 200
    last = [message["msg_type"] for message in outcome.everything[-2:]]
    assert last == ["display_data", "status"]  # after the cell's own outputs


def explained(kernel):
    """What %holdfast explain shows: its first line, and the terms with their meanings."""
    head, *parts = kernel.run("%holdfast explain").stream().split("\n\n")
    pairs = [part.strip("\n").split("\n", 1) for part in parts]
    return head, [(term, " ".join(meaning.split())) for term, meaning in pairs]


def test_each_term_is_explained(any_kernel):
    """Where it stands, and by %holdfast explain, in the same words."""
    kernel = any_kernel
    kernel.run("import os\ndef f(): pass")
    code = "for _ in range(1000): f()\nchild = os.fork()\nif not child: f(); os._exit(0)\n_ = os.waitpid(child, 0)"
    outcome = kernel.run(CELL + code)
    text = summary(outcome)
    terms = Terms(outcome.summaries[0]["text/html"]).found
    # One after the other, with nothing but punctuation between them. Two can be the same words.
    between, rest = "", text
    for term, _ in terms:
        before, found, rest = rest.partition(term)
        assert found
        between += before
    assert set(between + rest) == set(" ;,"), between + rest
    assert [re.sub(r"[\d.,]+", "N", term).split()[0] for term, _ in terms] == [
        *("N", "on", "memory", "(+N", "read", "wrote", "N", "(N", "recording", "in", "out", "ran")
    ]
    assert len({meaning for _, meaning in terms}) == len(terms)
    assert all(re.fullmatch(r"[A-Z][^<>&\"]*\.", meaning) for _, meaning in terms), terms
    used = number(r"used ([\d.e-]+) s\.", dict(terms)[terms[1][0]])
    assert used == pytest.approx(outcome.cost["cpu_ms"] / 1000, rel=0.01)
    head, shown = explained(kernel)
    assert head == f"The line below cell In[{outcome.content['execution_count']}]:"
    assert shown == terms


def test_explain_without_a_line(kernel):
    assert "No line to explain yet" in kernel.run("%holdfast explain").stream()


def test_explain_keeps_to_the_last_line(kernel):
    first = kernel.run(CELL + "1").content["execution_count"]
    kernel.run("%trace --summary off")
    kernel.run(CELL + "1")
    assert explained(kernel)[0] == f"The line below cell In[{first}]:"


WALL = re.compile(r"([\d.]+) (µs|ms|s) on ")
UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1}


def wall(text):
    """The line's first term in seconds, and how far it is rounded."""
    digits, unit = WALL.match(text).groups()
    places = len(digits.partition(".")[2])
    return float(digits) * UNITS[unit], UNITS[unit] / 10**places


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(0.001)",
        "%%time\nfib(12)",  # the first magic of the notebook
        "x = 1",
        "for _ in range(3): time.sleep(0.002)\n1 / 0",
        "import asyncio\nawait asyncio.sleep(0.003)",
        "Slow()",  # how long it takes to show a result is none of its code's time
    ],
)
def test_the_wall_time_is_one_figure_that_of_the_code(any_kernel, code):
    """In the line, in the trace, in the monitor's history and in %holdfast last."""
    kernel = any_kernel
    kernel.run(
        "import time\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "class Slow:\n    def __repr__(self): time.sleep(0.05); return 'slow'"
    )
    for attempt in range(8):
        outcome = kernel.run(CELL + code)
        seconds, step = wall(summary(outcome))
        number_ = outcome.content["execution_count"]
        asked = (
            "from holdfast import views; from holdfast.monitor import source\n"
            f"rows = views.trace({number_}).table()\n"
            f"(row,) = [row for row in rows if row['name'] == 'cell In[{number_}]']\n"
            f"(cell,) = [one for one in source.connect().cells() if one.number == {number_}]\n"
            "[row['inclusive'], cell.duration]"
        )
        traced, monitored = json.loads(kernel.run(asked).result)
        cost = outcome.cost
        assert seconds == pytest.approx(cost["run_ms"] / 1e3, abs=step)
        assert cost["run_ms"] / 1e3 == pytest.approx(monitored, abs=1e-6)
        assert min(cost["hand_over_in_ms"], cost["run_ms"], cost["hand_over_out_ms"]) >= 0
        if code == "Slow()":
            assert cost["hand_over_out_ms"] > 50
        elif code.startswith("%%time") and not attempt:
            assert cost["bytes_read"] < 20_000, "IPython loads its magics before the code"
        # Two clocks are read one after the other; another process may run between them.
        if traced == pytest.approx(monitored, abs=2e-4):
            break
    else:
        pytest.fail(f"{traced} in the trace, {monitored} in the line")


def test_the_trace_begins_with_the_code(any_kernel):
    """Not when the recording was opened: IPython has some milliseconds of work after that."""
    waits = []
    while len(waits) < 5 and min(waits, default=1e9) > 1e6:  # another process may run meanwhile
        number_ = any_kernel.run(CELL + "x = 1").content["execution_count"]
        asked = (
            f"from holdfast import views; done = views.trace({number_}).read()\n"
            "min(row['begin'][0] for row in done.found['rows'] if row['begin']) - done.begin"
        )
        waits.append(int(any_kernel.run(asked).result))
    assert 0 <= min(waits) < 1e6, waits


def test_the_first_cell_knows_what_recording_took(in_process_kernel):
    """It has a waiting process to ask only if one had time to find it out."""
    outcome = in_process_kernel.run(CELL + "def f(): pass\nfor _ in range(20000): f()")
    assert 0 < outcome.cost["recorder_ms"] < outcome.cost["run_ms"]
    assert "recording took" in summary(outcome)


def test_who_waits_knows_what_an_event_costs(start_kernel, tmp_path):
    kernel = start_kernel(env={"HOLDFAST_RUN": "isolated", "TMPDIR": str(tmp_path)})
    kernel.run("def f(): pass")
    for _ in range(20):  # a process that waits for a cell measures it when it has nothing to do
        outcome = kernel.run(CELL + "for _ in range(20000): f()")
        if outcome.cost["recorder_ms"]:
            break
    took = outcome.cost["recorder_ms"]
    assert 0 < took < outcome.cost["run_ms"]
    assert f"recording took {took:.1f} ms (" in summary(outcome)

    few = kernel.run(CELL + "pass")
    assert few.cost["recorder_ms"] < 0.001  # of less than a microsecond no word
    assert "2 events;" in summary(few) and "recording" not in summary(few)


@pytest.mark.parametrize("head", [CELL, "%%isolated\n", CELL[:-1] + " --run=isolated\n"])
def test_the_last_cell_is_shown_with_the_same_times(kernel, head):
    outcome = kernel.run(head + "pass")
    lines = kernel.run("%holdfast last").stream().splitlines()
    shown = {line.split()[0]: line.split()[1] for line in lines[:3]}
    for phase, key in (("in", "hand_over_in_ms"), ("out", "hand_over_out_ms")):
        assert shown[phase] == f"{outcome.cost[key]:.1f}", lines


def test_a_long_way_in_has_its_cause(kernel):
    """Objects of a class are encoded and decoded one by one."""
    kernel.run("class Thing: pass\nthings = [Thing() for _ in range(40_000)]")
    complete(kernel)  # else the cause may be that none was there
    outcome = kernel.run(CELL[:-1] + " --run=isolated\nlen(things)")
    parts = {"saving variables": "commit_ms", "binding variables": "bind_ms"}
    (cause,) = re.findall(rf"; ({'|'.join(parts)}) [\d.]+ m?s\), out", summary(outcome))
    assert outcome.cost[parts[cause]] >= outcome.cost["hand_over_in_ms"] / 2 - 1


def test_an_in_process_cell_saves_no_variables(in_process_kernel):
    """Where it waits until the notebook's process has made the fork, the line and the command say so."""
    kernel, causes = in_process_kernel, set()
    kernel.run("import numpy as np; rows = np.ones(1 << 22)")
    for number in range(5):
        outcome = kernel.run(CELL + f"rows[::512] = {number}")
        causes.update(re.findall(r"\(([a-z' ]+) [\d.]+ m?s\), out", summary(outcome)))
    parts = ("waiting for the notebook's process", "the fork and the start")
    assert causes <= {*parts, "making memory ready", "opening the recording"}
    line = kernel.run("%holdfast last").stream().splitlines()[0]
    assert re.findall(rf"; {parts[0]} [\d.]+ ms, {parts[1]} [\d.]+ ms", line), line


def test_cells_that_fail_have_it_and_others_dont(kernel):
    assert "2 events" in summary(kernel.run(CELL + "1 / 0"))
    assert summary(kernel.run("1")) is None
    assert summary(kernel.run("%%isolated\n1")) is None
    assert summary(kernel.run(CELL + "1", silent=True)) is None


def test_events_of_other_processes_are_counted(kernel):
    text = summary(
        kernel.run(
            CELL + "import os\ndef f(): pass\nchild = os.fork()\n"
            "for _ in range(10 if child else 1000): f()\n"
            "if not child: os._exit(0)\n_ = os.waitpid(child, 0)"
        )
    )
    others = number(r"\(([\d,]+) of other processes\)", text)
    assert 2000 <= others <= 2010
    assert 2022 <= number(r"([\d,]+) events \(", text) < 2100, "fork() has functions of its own"


def test_it_can_be_switched_off(any_kernel):
    kernel = any_kernel
    kernel.run("%trace --summary off")
    assert summary(kernel.run(CELL + "1")) is None
    kernel.run("%trace --summary on")
    assert summary(kernel.run(CELL + "1"))
    kernel.run("%env HOLDFAST_SUMMARY=off")
    assert summary(kernel.run(CELL + "1")) is None


def test_multi_cell_mode(kernel):
    kernel.run("%%enable_multicellmode")
    kernel.run("1")
    kernel.run("2")
    assert " events" in summary(kernel.run("%%finalize_multicellmode"))


def test_it_says_where_the_cell_ran(either_kernel, request):
    mode = request.node.callspec.params["either_kernel"]
    text = summary(either_kernel.run(CELL + "1"))
    assert text.endswith(f"; ran {mode}")


def test_what_ipythons_history_writes_isnt_the_cells(in_process_kernel, tmp_path):
    """Its thread writes the lines of cells while later ones run."""
    kernel = in_process_kernel
    kernel.run("history = get_ipython().history_manager")
    text = summary(
        kernel.run(
            CELL + "import time\n"
            "while history.db_input_cache: time.sleep(0.01)\n"  # until the lines above are written
            "import os\nwith open('own', 'wb', 0) as file: _ = file.write(b'x' * 3000)"
        )
    )
    assert 3000 <= number(rf"wrote {BYTES}", text) < 3100


@pytest.mark.fresh  # after %reset no process can be spawned, in ipykernel neither
@pytest.mark.parametrize("way", effort.core(["fork", "spawn"], ["fork"]))
def test_what_recorders_in_children_write_isnt_the_cells(in_process_kernel, tmp_path, way):
    """A child leaves its events in files when it ends, and its parent counts what it wrote."""
    kernel = in_process_kernel
    (tmp_path / "calls.py").write_text("def f(): pass\ndef g():\n    for _ in range(20000): f()\n")
    kernel.run(f"import sys, multiprocessing; sys.path.insert(0, {str(tmp_path)!r}); import calls")
    outcome = kernel.run(
        CELL + f"child = multiprocessing.get_context({way!r}).Process(target=calls.g)\n"
        "child.start(); child.join()\n"
        f"with open({str(tmp_path / 'written')!r}, 'wb', 0) as file: _ = file.write(b'x' * 30000)"
    )
    text = summary(outcome)
    assert number(r"\(([\d,]+) of other processes", text) > 40000
    assert 30000 <= number(rf"wrote {BYTES}", text) < 35000


@pytest.mark.parametrize(
    "run", effort.core(["in-process", "forked", "isolated"], ["in-process", "isolated"])
)
def test_a_cell_that_reads_nothing_has_read_nothing(kernel, tmp_path, run):
    """The counters are read themselves, which was the cell's: 343 to 454 bytes of it."""
    (tmp_path / "seven").write_bytes(b"seven b")
    kernel.run("import os\nfd = None")
    head = f"%%execute_with_scorep --run={run}\n"
    name = str(tmp_path / "seven")
    for code, bytes_ in (("x = 1", 0), (f"os.read(os.open({name!r}, os.O_RDONLY), 99)", 7)):
        outcome = kernel.run(head + code)
        assert outcome.status == "ok"
        assert f"; read {bytes_} B, " in outcome.summaries[0]["text/plain"]


@pytest.mark.parametrize("run", effort.core(["in-process", "isolated"], ["in-process"]))
def test_processes_that_live_on_count(shared_kernel, run):
    """joblib's workers outlive a cell, and it hasn't waited for them: the line said "on 0.0 cores"."""
    outcome = shared_kernel.run(
        f"%%execute_with_scorep --run={run}\n"
        "import subprocess, sys\n"
        "work = 'import time\\nwhile time.process_time() < 1: pass\\nprint(flush=True)\\ninput()'\n"
        "other = subprocess.Popen([sys.executable, '-S', '-c', work], stdin=-1, stdout=-1)\n"
        "done = other.stdout.readline()\n"
        "del other"
    )
    assert outcome.cost["cpu_ms"] >= 900
