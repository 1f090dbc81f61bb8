"""A worker in another language, written from docs/control-protocol.md: examples/kernel_perl."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture
def perl(program, start_kernel):
    spec = {"argv": [str(program), "{connection_file}", str(EXAMPLE / "worker.pl")]}
    spec |= {"display_name": "Perl", "language": "perl", "interrupt_mode": "message"}
    return start_kernel(spec=spec)


def test_cells(perl):
    assert perl.run("$x = 6; $x * 7").result == "42"
    outcome = perl.run('print "é\\n"; print STDERR "err\\n"; printf "%03d", $x; ++$x')
    assert (outcome.stream(), outcome.stream("stderr"), outcome.result) == ("é\n006", "err\n", "7")
    assert outcome.types == ["status", "execute_input", *["stream"] * 3, "execute_result", "status"]
    failed = perl.run('die "oh\\n"')
    assert failed.status == "error" and failed.content["evalue"] == "oh\n"
    assert perl.run("system 'echo below'; $x").stream() == "below\n"
    assert perl.run('main::ask("Who? ")', answers=["Ada"]).result == "Ada"


def test_an_interrupt_ends_the_cell_and_keeps_the_variables(perl):
    perl.run("$x = 5")
    sent = perl.client.execute('print "now"; sleep 1 while 1')
    while perl.client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass
    perl.manager.interrupt_kernel()
    assert perl.finish(sent).content["evalue"] == "interrupted\n"
    assert perl.run("$x").result == "5"


def test_a_death_costs_the_variables_only(perl):
    perl.run("$x = 5")
    died = perl.run("kill 9, $$")
    assert died.content["ename"] == "CellDied" and "SIGKILL" in died.content["evalue"]
    assert perl.run("$x // 'gone'").result == "gone"


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
