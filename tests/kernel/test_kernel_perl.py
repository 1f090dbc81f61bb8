"""A worker in another language, written from docs/control-protocol.md: examples/kernel_perl.

Its program has the commands for any language (holdfast/commands.h).
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import begun

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "kernel_perl"
BUILD = os.environ.get("HOLDFAST_BUILD")
if not BUILD or not shutil.which("perl") or not shutil.which("cc"):
    pytest.skip("needs HOLDFAST_BUILD, perl and a C compiler", allow_module_level=True)
if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
    pytest.skip("the example knows recvmsg(2) of Linux", allow_module_level=True)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The example's program, linked to the libraries of the build."""
    program = tmp_path_factory.mktemp("perl") / "perl-kernel"
    libraries = [f"{BUILD}/kernel", f"{BUILD}/shm_store"]
    if not Path(libraries[0], "libholdfast-kernel.so").exists():
        pytest.skip("no shared library was built")
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += [
        f"-I{ROOT}/kernel/include",
        f"-I{ROOT}/shm_store/include",
        str(EXAMPLE / "kernel.c"),
    ]
    command += [flag for path in libraries for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
    command += ["-lholdfast-kernel", "-lholdfast", "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    return program


def start(program, start_kernel, worker=EXAMPLE / "worker.pl"):
    spec = {"argv": [str(program), "{connection_file}", str(worker)]}
    spec |= {"display_name": "Perl", "language": "perl", "interrupt_mode": "message"}
    return start_kernel(spec=spec)


@pytest.fixture
def perl(program, start_kernel):
    return start(program, start_kernel)


def test_cells(perl):
    assert perl.run("$x = 6; $x * 7").result == "42"
    outcome = perl.run('print "é\\n"; print STDERR "err\\n"; printf "%03d", $x; ++$x')
    assert (outcome.stream(), outcome.stream("stderr"), outcome.result) == (
        "é\n006",
        "err\n",
        "7",
    )
    assert outcome.types == [
        "status",
        "execute_input",
        *["stream"] * 3,
        "execute_result",
        "status",
    ]
    failed = perl.run('die "oh\\n"')
    assert failed.status == "error" and failed.content["evalue"] == "oh\n"
    assert perl.run("system 'echo below'; $x").stream() == "below\n"
    assert perl.run('main::ask("Who? ")', answers=["Ada"]).result == "Ada"


def test_an_interrupt_ends_the_cell_and_keeps_the_variables(perl):
    perl.run("$x = 5")
    sent = begun(perl, 'print "now"; sleep 1 while 1')
    perl.manager.interrupt_kernel()
    assert perl.finish(sent).content["evalue"] == "interrupted\n"
    assert perl.run("$x").result == "5"


def test_a_death_costs_the_variables_only(perl):
    perl.run("$x = 5")
    died = perl.run("kill 9, $$")
    assert died.content["ename"] == "CellDied" and "SIGKILL" in died.content["evalue"]
    assert perl.run("$x // 'gone'").result == "gone"


def test_isolated_cells(perl):
    assert perl.run("$x = 6").result == "6"
    # the command's line becomes a comment, and errors name the line that the user sees
    failed = perl.run("# head\n%%isolated\n$x // 'none'; die 'oh'")
    assert (
        failed.content["evalue"].startswith("oh at (eval") and "line 3" in failed.content["evalue"]
    )
    alone = perl.run("%%isolated\n$x // 'none'")
    assert (alone.result, alone.cost["run"]) == ("none", "isolated")
    within = perl.run("%%isolated --run=in-process\n$x // 'none'")
    assert (within.result, within.cost["run"]) == ("6", "in-process")
    died = perl.run("%%isolated\nkill 9, $$")
    assert died.content["ename"] == "CellDied" and "SIGKILL" in died.content["evalue"]
    assert perl.run("$x").result == "6"


def test_wrong_commands_are_errors_and_run_nothing(perl):
    perl.run("$x = 5")
    for cell, words in [
        ("%%isolated --run=nowhere\n$x = 1", "%%isolated takes no argument but --run="),
        ("%%isolated\n# nothing\n", "there is no code below it"),
        ("%holdfast undo\n$x = 1", "must be its cell's only one"),
        ("%holdfast checkout", "%holdfast checkout N  the variables of step N"),
        ("%holdfast frobnicate", "%holdfast undo"),
    ]:
        refused = perl.run(cell)
        assert refused.content["ename"] == "UsageError" and words in refused.content["evalue"], cell
    assert "%holdfast save FILE" in perl.run("%holdfast").stream()
    assert perl.run("$x").result == "5"


HISTORY = "undo;undo --to 1;checkout 1;diff;history;history 1G;save f;load f;publish".split(";")


def test_a_worker_without_history_says_so(perl, tmp_path):
    perl.run("$x = 5")
    for words in HISTORY:
        refused = perl.run(f"%holdfast {words}")
        assert refused.content["ename"] == "NotSupported", words
        assert "has no history" in refused.content["evalue"]
    assert perl.run("$x").result == "5"


def test_a_worker_prints_the_text_that_it_gets(program, start_kernel, tmp_path):
    """It says that it knows the history, and has none: it saves nothing."""
    code = (EXAMPLE / "worker.pl").read_text("utf-8")
    for before, after in [
        (
            "pid => $$, modules => []",
            "pid => $$, modules => [], history => $JSON->decode('[true]')->[0]",
        ),
        (
            "    my ($value, $error) = do {",
            "    $frame->{code} = 'print $main::told; undef' if $main::told = $frame->{history}{text};\n"
            "    my ($value, $error) = do {",
        ),
    ]:
        assert before in code
        code = code.replace(before, after)
    worker = tmp_path / "worker.pl"
    worker.write_text("our $told;\n" + code)
    perl = start(program, start_kernel, worker)
    assert perl.run("$x = 5").result == "5"
    listed = perl.run("%holdfast history 1G").stream()
    assert "No step is kept yet.\nNot committed yet: what cell 1 may have changed.\n" in listed
    assert "kept for it, of at most 1 GiB." in listed
    assert "generation 0 of the session /holdfast-" in perl.run("%holdfast publish").stream()
    assert perl.run("%holdfast diff").stream() == "No step is kept yet.\n"
    failed = perl.run("%holdfast undo")
    assert (
        failed.content["ename"] == "HistoryError" and "no step is kept" in failed.content["evalue"]
    )
    assert perl.run("$x").result == "5"


@pytest.mark.parametrize(("mode", "seen"), [("isolated", "none"), ("in-process", "6")])
def test_recorded_cells_run_where_the_worker_says(start_kernel, tmp_path, mode, seen):
    """By holdfast-kernel, which has the commands, with this worker in the place of Python's."""
    script = tmp_path / "perl-for-python"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -m ]; then shift 2; exec perl "{EXAMPLE}/worker.pl" "$@"; fi\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    kernel = start_kernel(python=str(script))
    kernel.run("$x = 6")
    outcome = kernel.run(f"%%execute_with_scorep --run={mode}\n$x // 'none'")
    assert outcome.result == seen and outcome.cost["run"] == mode
    if mode == "isolated":
        assert "SIGKILL" in kernel.run(f"%%isolated --run={mode}\nkill 9, $$").content["evalue"]
    assert kernel.run("$x").result == "6"
