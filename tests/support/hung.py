"""What the processes of a kernel that doesn't answer are doing: reported with a test that waited in vain."""

import contextlib
import shutil
import subprocess
from pathlib import Path


def describe(kernel):
    """Of a kernel's process and all below it: command, state, where each thread waits, its stack.

    Python's stacks are there only where py-spy is on PATH.
    """
    for pid in [kernel, *_below(kernel)]:
        with contextlib.suppress(OSError):
            place = Path(f"/proc/{pid}")
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            print(f"\nprocess {pid}: {command}")
            for task in sorted((place / "task").iterdir()):
                print(" ", *(_read(task / name) for name in ("comm", "wchan", "syscall")))
        if shutil.which("py-spy"):
            dump = subprocess.run(
                ["py-spy", "dump", "--nonblocking", "--pid", str(pid)],
                capture_output=True,
                text=True,
            )
            print(dump.stdout)


def _below(pid):
    """The descendants of a process: those that this user may see."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, _read(path).split()):
            found += [child, *_below(child)]
    return found


def _read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return "-"
