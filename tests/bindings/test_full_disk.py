"""A disk that becomes full: a recording stops before that, and when it is full nothing ends and nothing is lost.

The disk is a small file system in memory, in a name space of its own.
"""

import os
import subprocess
import sys

import pytest

IN_NAMESPACE = 'mount -t tmpfs -o size=8m none "$1" && cd "$1" && shift && exec "$@"'
PROGRAM = """
import os, subprocess, sys, threading
from holdfast import _recorder as r
from holdfast.scorep import ending

def a(): pass

def fill(count):
    for _ in range(count): a()

def free():
    there = os.statvfs(".")
    return there.f_bavail * there.f_frsize

def events_read():
    shown = subprocess.run(["otf2-print", "trace/traces.otf2"], capture_output=True, text=True, check=True)
    return sum(line.startswith(("ENTER", "LEAVE")) for line in shown.stdout.splitlines())
"""


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    path = tmp_path_factory.mktemp("disk")
    tried = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "none", path],
        check=False,
        capture_output=True,
    )
    if tried.returncode != 0:
        pytest.skip("no name space for mounts")
    return path


def run(disk, program, reserve):
    """The words that a program printed on a disk of 8 MiB, and what it said on stderr.

    Nothing waits in a buffer, which a fork of the program would print again.
    """
    command = ["unshare", "-rm", "sh", "-c", IN_NAMESPACE, "sh", disk]
    done = subprocess.run(
        [*command, sys.executable, "-u", "-c", PROGRAM + program],
        env=os.environ | {"HOLDFAST_DISK_RESERVE": reserve},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def test_a_recording_leaves_the_reserve_free(disk):
    """Its archive does so, too. What it has until then is a trace like any other."""
    (events, lost, left, read, files), said = run(
        disk,
        "r.open('trace'); r.enable(); fill(500_000); result = ending.close_at_end()\n"
        "print(result['events'], result['lost'], free(), events_read(), '/'.join(sorted(os.listdir('trace'))))",
        reserve="3M",
    )
    assert int(events) > 50_000 and 1_000_000 <= int(events) + int(lost) < 1_000_010
    assert int(left) >= 3 << 20 and read == events
    assert files == "traces/traces.def/traces.otf2"
    assert said.count("\n") == 1 and f"Its first {int(events):,} events are kept" in said
    assert "HOLDFAST_DISK_RESERVE" in said and "SCOREP_FILTERING_FILE" in said


def test_processes_that_record_together_leave_it_free(disk):
    """Each counts what the others' archives will take."""
    (left, read), said = run(
        disk,
        "r.open('trace', children=True); r.enable()\n"
        "children = [] if not os.fork() else [os.fork()]\n"
        "fill(300_000)\n"
        "if children != [] and children[0]: os.wait(); os.wait()\n"
        "else: ending.close_at_end(); os._exit(0)\n"
        "ending.close_at_end()\n"
        "print(free(), events_read())",
        reserve="2M",
    )
    assert int(left) >= 2 << 20 and int(read) > 100_000
    assert "was stopped" in said


def test_without_a_reserve_a_full_disk_keeps_the_events(disk):
    """OTF2's library must not write to it: after a write that failed, its closing was a segmentation fault."""
    (left, kept, full, again, whole, read), said = run(
        disk,
        "r.open('trace'); r.enable(); fill(700_000)\n"
        "print(free()); assert ending.close_at_end() is None\n"
        "print(os.listdir('trace')[0])\n"
        "if not os.fork():\n"  # that of a process which was killed is written without a look at the disk
        "    os.close(2)\n"
        "    try: r.recover('trace')\n"
        "    except OSError: print('full', flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); print(os.path.getsize('trace/log-0'))\n"
        "subprocess.run(['mount', '-o', 'remount,size=64m', '.'], check=True)\n"
        "print(r.recover('trace')['events'], events_read())",
        reserve="0",
    )
    assert int(left) < 1 << 20 and kept == "log-0" and "make room, then write it with" in said
    assert full == "full" and int(again) > 7 << 20 and whole == read and int(read) > 800_000


@pytest.mark.parametrize("record", ["all", "marked"])
def test_a_cell_without_room_for_its_recording(start_kernel, record):
    """The notebook goes on; a cell for which somebody asked for a trace doesn't run without one."""
    kernel = start_kernel(env={"HOLDFAST_DISK_RESERVE": "1000000T", "HOLDFAST_RECORD": record})
    cell = "1 + 1" if record == "all" else "%%execute_with_scorep\n1 + 1"
    for _ in range(2):
        done = kernel.run(cell)
        assert done.result == ("2" if record == "all" else None)
        said = done.stream("stderr") if record == "all" else done.reply["content"]["evalue"]
        assert "HOLDFAST_DISK_RESERVE" in said
    assert kernel.run("import glob; glob.glob('scorep-*')").result == "[]"
