"""Lines that are sampled in programs: where the samples are, by shares, and what is only counted.

A function that runs until it has been sampled often enough waits for an event, not for a time: `spin`
asks what the sampler has counted. On a machine with other work a thread may lose its processor at any line, so it
also goes on until that doesn't matter.
"""

import json
import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("holdfast._recorder")
from holdfast.scorep import line_counts  # noqa: E402
from holdfast.views import sources  # noqa: E402

# What a program needs to wait for the sampler: `spin` keeps the processor meanwhile.
LOOKS = """
import os
from pathlib import Path
from holdfast.scorep import line_counts

def sampled():
    kept, line_counts.PATTERN = line_counts.PATTERN, f"lines-*-{os.getpid()}.bin"
    try:
        found = line_counts.codes(Path(os.environ["SCOREP_EXPERIMENT_DIRECTORY"]))
    finally:
        line_counts.PATTERN = kept
    spin = [code for code in found if code.name == "spin"]
    there = sum(code.lines[5].samples for code in spin)
    return there, sum(code.samples for code in spin) - there

class Until:
    def __init__(self, count):
        self.count = sampled()[0] + count
    def more(self):
        there, elsewhere = sampled()
        return there < self.count or there < 15 * elsewhere
"""
WORK = """
import looking
def spin(count=60):
    until = looking.Until(count)
    while until.more(): sum(range(5000))
    never = 1
    if never: return never
    return 2
"""


@pytest.fixture
def sample(tmp_path, python):
    """Run a script with --lines; its functions by name."""

    def run(program, *options, status=0, modules=(), **variables):
        library = tmp_path / "lib" / "site-packages"
        library.mkdir(parents=True, exist_ok=True)
        (library / "looking.py").write_text(LOOKS)
        (tmp_path / "work.py").write_text(WORK)
        for name, text in modules:
            (tmp_path / name).write_text(textwrap.dedent(text))
        (tmp_path / "script.py").write_text(textwrap.dedent(program))
        done = python(
            "-m",
            "holdfast.scorep",
            "--lines",
            *options,
            "script.py",
            PYTHONPATH=str(library),
            **variables,
        )
        assert done.returncode == status, done.stderr
        found = line_counts.codes(tmp_path / "experiment")
        return {code.name: code for code in found if Path(code.file).parent == tmp_path}

    run.directory = tmp_path / "experiment"
    return run


def share(code, line):
    return code.lines[line].samples / code.samples


def calls(code, *lines):
    """Samples in what these lines called. In the line itself a thread may wait for a processor at any time."""
    return sum(code.lines[line].inclusive_samples - code.lines[line].samples for line in lines)


def test_the_line_that_works_has_the_samples(sample):
    found = sample("import work\ndef main():\n    work.spin()\n    work.spin(1)\nmain()\n")
    spin, main = found["spin"], found["main"]
    assert spin.calls == 2 and spin.samples > 60 and spin.def_line == 3
    assert share(spin, 5) > 0.9
    assert sorted(spin.lines) == [3, 4, 5, 6, 7, 8], "the lines that have code"
    assert spin.lines[8].samples == 0 and spin.lines[8].inclusive_samples == 0
    # Both calls may need any number of samples. `main` may return while one is taken.
    assert spin.samples - 1 <= calls(main, 3, 4) <= spin.samples
    assert spin.inclusive_samples == spin.samples == sum(one.samples for one in spin.lines.values())
    total = line_counts.total(sample.directory)
    assert (total.processes, total.dropped, total.cut) == (1, 0, 0)
    assert total.samples >= spin.samples and total.interval_ns == 1_000_000
    assert total.processor_ns > 0


def test_libraries_have_no_lines_and_count_for_their_callers(sample):
    found = sample("import work, json\nwork.spin()\njson.dumps([])\n")
    assert set(found) == {"<module>", "spin"}
    files = {code.file for code in line_counts.codes(sample.directory)}
    assert not [file for file in files if "json" in file or "looking" in file]


def test_generators_threads_and_exceptions(sample):
    program = """
    import threading, work
    def steps():
        for i in range(3):
            work.spin(20)
            yield i
    def fail():
        work.spin(20)
        raise ValueError
    def other():
        work.spin(40)
    def main():
        list(steps())
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        try:
            fail()
        except ValueError:
            pass
        work.spin(20)
    main()
    """
    found = sample(program)
    assert found["steps"].calls == 4, "the first step, and each resumption"
    assert found["other"].calls == found["fail"].calls == found["main"].calls == 1
    for name, line, wanted in (("steps", 5, 60), ("fail", 8, 20), ("other", 11, 40)):
        code = found[name]
        assert calls(code, *code.lines) == calls(code, line) >= wanted - 3, name
    main = found["main"]
    assert main.lines[16].samples > 0, "the thread that waits is seen as well"
    assert calls(main, 21) >= 19, "after an exception the stack is right"


def test_calls_are_counted_and_a_recursion_is_one(sample):
    program = """
    import work
    def deep(n):
        if n == 0:
            work.spin()
            return 0
        return deep(n - 1)
    def small(): pass
    deep(40)
    for _ in range(12345): small()
    """
    found = sample(program)
    assert found["deep"].calls == 41 and found["small"].calls == 12345
    deep = found["deep"]
    assert deep.lines[7].inclusive_samples <= deep.inclusive_samples, "once for all its visits"
    assert deep.inclusive_samples >= calls(deep, 5) >= found["spin"].samples - 1 >= 59


def test_without_functions_in_the_trace(sample):
    found = sample("import work\nwork.spin()\n", "--noinstrumenter")
    assert share(found["spin"], 5) > 0.9


def test_a_subscript_is_a_call(sample):
    program = """
    import work
    class Rows:
        def __getitem__(self, at):
            return at
    rows = Rows()
    for at in range(100): rows[at]
    work.spin(5)
    """
    for options in ((), ("--noinstrumenter",)):
        assert sample(program, *options)["Rows.__getitem__"].calls == 100


def test_forked_processes_have_their_own_part(sample):
    program = """
    import os, work
    def child():
        work.spin()
    work.spin(20)
    if os.fork() == 0:
        child()
        os._exit(0)
    os.wait()
    """
    found = sample(program)
    assert line_counts.total(sample.directory).processes == 2
    assert found["child"].calls == 1 and found["child"].inclusive_samples > 0
    assert found["spin"].calls == 2


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "1 / 0", "os._exit(3)"])
def test_what_was_sampled_until_the_end_is_there(sample, end):
    program = f"import os, signal, work\nwork.spin()\n{end}\nwork.spin()\n"
    status = {"os": 3, "1 ": 1}.get(end[:2])
    status = -signal.SIGKILL if "SIGKILL" in end else status
    found = sample(program, status=status)
    assert found["spin"].calls == 1 and share(found["spin"], 5) > 0.9
    assert (sample.directory / "sources.json").is_file() == ("SIGKILL" not in end)
    cut = sorted(sample.directory.glob(line_counts.PATTERN))[0]
    cut.write_bytes(cut.read_bytes()[: line_counts._HEADER.size + 100])
    assert line_counts.codes(sample.directory) == [], "a record that isn't whole isn't read"


def test_bytes_that_lie_are_not_followed(sample):
    sample("import work\nwork.spin(3)\n")
    (path,) = sample.directory.glob(line_counts.PATTERN)
    whole = path.read_bytes()
    for at in range(line_counts._HEADER.size, line_counts._HEADER.size + 24, 4):
        path.write_bytes(whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4 :])
        assert len(line_counts.codes(sample.directory)) <= 3
    path.write_bytes(b"another file" + whole)
    assert line_counts.total(sample.directory) is None and line_counts.codes(sample.directory) == []


def test_the_text_is_that_which_ran(sample, tmp_path):
    sample("import work\nwork.spin()\n")
    kept = json.loads((sample.directory / "sources.json").read_text())
    assert kept == {
        str(tmp_path / "work.py"): WORK,
        str(tmp_path / "script.py"): "import work\nwork.spin()\n",
    }
    (tmp_path / "work.py").write_text("# another\n")
    found = sources.sampled(sample.directory, sources.Where({}, None))
    assert found["files"][0]["text"] == WORK and found["kind"] == "sampled"
    os.unlink(sample.directory / "sources.json")
    found = sources.sampled(sample.directory, sources.Where({}, 1.0))
    assert "text" not in found["files"][0], "it was changed since"


def test_nothing_is_left_when_it_ends(tmp_path):
    from holdfast import _recorder

    threads = os.listdir("/proc/self/task")
    path = tmp_path / "lines-x.bin"
    with pytest.raises(TypeError):
        _recorder.lines_begin(path, (1,))
    with pytest.raises(OSError, match="lines-x"):
        _recorder.lines_begin(tmp_path / "none" / "lines-x.bin", ())
    _recorder.lines_begin(path, ())
    with pytest.raises(RuntimeError):
        _recorder.lines_begin(path, ())
    assert len(os.listdir("/proc/self/task")) == len(threads) + 1
    _recorder.lines_end()
    _recorder.lines_end()
    assert len(os.listdir("/proc/self/task")) == len(threads)
    assert path.stat().st_size < 100_000
    if sys.version_info >= (3, 12):
        assert "holdfast lines" not in map(sys.monitoring.get_tool, range(6))
