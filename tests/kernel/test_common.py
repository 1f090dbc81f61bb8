"""The commands for any language (holdfast/commands.h), with Holdfast's Python worker, which has a history."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HOLDFAST_BUILD")
if not BUILD or not Path(BUILD, "kernel", "libholdfast-kernel.so").exists():
    pytest.skip("needs HOLDFAST_BUILD with a shared library", allow_module_level=True)

PROGRAM = r"""
#include <holdfast/commands.h>
#include <stdio.h>
int
main(int argc, char **argv) {
    const char *worker[] = {argv[argc > 2 ? 2 : 0], "-m", "holdfast.worker", NULL};
    hf_kernel_options options = {
        .struct_size = sizeof options,
        .connection_file = argv[1],
        .worker_argv = worker,
        .kernel_info = "{\"language_info\": {\"name\": \"python\", \"version\": \"3\","
                       " \"mimetype\": \"text/x-python\", \"file_extension\": \".py\"}}",
        .commands = hf_kernel_commands_common(),
        .comment = "#"};
    hf_kernel *kernel = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_kernel_create(&options, &kernel, &error);
    if (status == HF_OK)
        status = hf_kernel_run(kernel, &error);
    if (status != HF_OK)
        fprintf(stderr, "%s\n", error.message);
    hf_kernel_close(kernel);
    return status != HF_OK;
}
"""


@pytest.fixture
def kernel(tmp_path, start_kernel):
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        str(source),
    ]
    command += [f"-I{ROOT}/{room}/include" for room in ("kernel", "shm_store")]
    for room in ("kernel", "shm_store"):
        command += [f"-L{BUILD}/{room}", f"-Wl,-rpath,{BUILD}/{room}"]
    command += ["-lholdfast-kernel", "-lholdfast", "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    spec = {"argv": [str(program), "{connection_file}", sys.executable]}
    spec |= {
        "display_name": "common",
        "language": "python",
        "interrupt_mode": "message",
    }
    return start_kernel(spec=spec)


@pytest.mark.fresh
def test_the_commands_of_any_language(kernel, tmp_path):
    assert kernel.run("x = 1").status == "ok"
    isolated = kernel.run("%%isolated\ny = x + 1")
    assert (isolated.status, isolated.cost["run"]) == ("ok", "isolated")
    forked = kernel.run("# why\n%%isolated --run=forked\nx = y * 10")
    assert (forked.status, forked.cost["run"]) == ("ok", "forked")
    assert kernel.run("x, y").result == "(20, 2)"

    saved = tmp_path / "saved file"
    assert kernel.run(f"%holdfast save '{saved}'").status == "ok" and saved.exists()
    undone = kernel.run("%holdfast undo")
    assert undone.status == "ok" and "Changed: x" in undone.stream(), undone.content
    assert kernel.run("x, y").result == "(1, 2)"
    assert "x" in kernel.run("%holdfast diff").stream()
    assert kernel.run(f"%holdfast load '{saved}'").status == "ok"
    assert kernel.run("x, y").result == "(20, 2)"
    assert "generation" in kernel.run("%holdfast publish").stream()
    lost = kernel.run("%holdfast checkout 999")
    assert lost.content["ename"] == "HistoryError" and "%holdfast history" in lost.content["evalue"]
    assert kernel.run("%holdfast checkout x").content["ename"] == "UsageError"
    assert kernel.run("x, y").result == "(20, 2)"
