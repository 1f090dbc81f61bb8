"""The way of a cell through the worker's files, traced in each run mode: no call comes back to a file that it has left.

A module that Python imports at its start sets a profile function in the fork server, and so in all its forks.
"""

import itertools
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
# A chapter for each frame that is handled; in it each chain of calls below the event loop, once.
TRACE = """
import os, sys
ROOM = os.path.join("holdfast", "worker", "")
seen, process = set(), 0
def note(frame, event, argument):
    global process
    if event != "call" or ROOM not in frame.f_code.co_filename:
        return
    chain = []
    while frame is not None and frame.f_code.co_filename.rpartition(os.sep)[2] != "events.py":
        _, is_ours, name = frame.f_code.co_filename.rpartition(ROOM)
        if is_ours:
            chain.append(name + ":" + frame.f_code.co_name)
        frame = frame.f_back
    line = " ".join(reversed(chain)) + "\\n"
    if line in ("requests.py:_handle\\n", "main_worker.py:_handle\\n") or process != os.getpid():
        process = os.getpid()
        seen.clear()
        line = "-\\n" + line
    if line not in seen:
        seen.add(line)
        with open(os.path.join({place!r}, str(process)), "a") as file:
            file.write(line)
sys.setprofile(note)
"""
CELLS = {
    "plain": "",
    "in-process": "%%execute_with_scorep --run=in-process\n",
    "forked": "%%execute_with_scorep --run=forked\n",
    "isolated": "%%execute_with_scorep --run=isolated\n",
}


CHAIN = re.compile(r"(\S+):(\S+)")


def files_twice(chain):
    """The files that a chain of calls comes back to."""
    files = [name for name, _ in itertools.groupby(CHAIN.findall(chain), lambda step: step[0])]
    return {name for name in files if files.count(name) > 1}


def chapter_of_cell(text, number):
    """The chains of the frame that ran the last cell."""
    return [one for one in text.split("-\n") if "shell.py:_run_code" in one][number].splitlines()


def test_no_call_comes_back_to_a_file(start_kernel, tmp_path):
    place = tmp_path / "calls"
    place.mkdir()
    (tmp_path / "sitecustomize.py").write_text(TRACE.format(place=str(place)))
    kernel = start_kernel(env={"PYTHONPATH": str(tmp_path)})
    kernel.run("import os")
    found, wrong = {}, {}
    for way, head in CELLS.items():
        outcome = kernel.run(head + "print(os.getpid())\nos.getpid()")
        assert outcome.status == "ok", outcome.content
        if way != "plain":
            assert outcome.cost["run"] == way
        kernel.run("1")  # what waits for the end of a cell is done
        last = -2 if way in ("plain", "in-process") else -1
        found[way] = chapter_of_cell((place / outcome.result).read_text(), last)
        wrong[way] = [one for one in found[way] if files_twice(one)]
    assert {way: lines for way, lines in wrong.items() if lines} == {}
