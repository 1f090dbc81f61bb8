"""The path of a cell through the worker's files, traced in each run mode: no call comes back to a file that it has left.

A module that Python imports at its start sets a profile function in the fork server, and so in all its forks.
"""

import itertools
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/internals.md"
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
    if line.endswith("_handle\\n") or process != os.getpid():
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


STEP = re.compile(r"(\S+):(\S+)")
NAMED = re.compile(r"`worker/([^`]+:\w+)`")
# Its tables read each other's rows.
LEAVES = "settings/"


def files_twice(chain):
    """The files that a chain of calls comes back to."""
    steps = (name for name, _ in STEP.findall(chain) if not name.startswith(LEAVES))
    files = [name for name, _ in itertools.groupby(steps)]
    return {name for name in files if files.count(name) > 1}


def path_on_page(way):
    """The rows of docs/internals.md for a cell of this kind: the functions of a file, in their order."""
    table = (
        PAGE.read_text("utf-8").partition("Through the worker that runs it:")[2].split("\n\n")[1]
    )
    head, _, *rows = [line.strip("|").split("|") for line in table.splitlines()]
    column = [one.strip() for one in head].index(way)
    return [NAMED.findall(row[0]) for row in rows if row[column].strip()]


def test_no_call_comes_back_to_a_file(start_kernel, tmp_path):
    place = tmp_path / "calls"
    place.mkdir()
    (tmp_path / "sitecustomize.py").write_text(TRACE.format(place=str(place)))
    kernel = start_kernel(env={"PYTHONPATH": str(tmp_path)})
    kernel.run("import os")
    for way, head in CELLS.items():
        outcome = kernel.run(head + "print(os.getpid())\nos.getpid()")
        assert outcome.status == "ok", outcome.content
        if way != "plain":
            assert outcome.cost["run"] == way
        kernel.run("1")  # what is left for the end of the cell is done
        frames = (place / outcome.result).read_text().split("-\n")
        chains = [one.splitlines() for one in frames if "shell.py:_run_code" in one]
        # In the main worker a cell follows.
        chain = chains[-2 if way in ("plain", "in-process") else -1]
        called = list(dict.fromkeys(line.split()[-1] for line in chain))
        page = path_on_page(way)
        firsts = [called.index(functions[0]) for functions in page]
        assert firsts == sorted(firsts), (way, page)
        assert {name for functions in page for name in functions} <= set(called), way
        files = [functions[0].partition(":")[0] for functions in page]
        assert len(files) == len(set(files)) > 5
    handled = [
        line
        for file in place.iterdir()
        for line in file.read_text().splitlines()
        if "requests.py:_handle " in line
    ]
    assert len(handled) > 1000
    assert [line for line in handled if files_twice(line)] == []
