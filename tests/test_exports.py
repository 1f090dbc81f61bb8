"""What the shared libraries export is what tests/golden/exports-*.txt lists.

A symbol that appears is an interface that somebody will use; one that disappears breaks
somebody. Both are decided, not found out: the change to the list is part of the commit.
HOLDFAST_BUILD names the meson build directory; ./test sets it. Called as a program, with
the build directory, this file writes the lists anew.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent / "golden"
LIBRARIES = ("holdfast", "holdfast-kernel")


def exports(build: str, name: str) -> list[str]:
    found = [
        path
        for path in Path(build).rglob(f"lib{name}.so*")
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".symbols")
    ]
    assert len(found) == 1, f"lib{name}.so: {found}"
    done = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", found[0]],
        check=True,
        text=True,
        capture_output=True,
    )
    return sorted(line.split()[0] for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", LIBRARIES)
def test_exports(name):
    build = os.environ.get("HOLDFAST_BUILD")
    if not build:
        pytest.skip("HOLDFAST_BUILD isn't set")
    expected = (GOLDEN / f"exports-{name}.txt").read_text("utf-8").split()
    assert exports(build, name) == expected


@pytest.mark.parametrize("name", LIBRARIES)
def test_lists_are_public_names(name):
    listed = (GOLDEN / f"exports-{name}.txt").read_text("utf-8").split()
    assert listed and listed == sorted(set(listed))
    assert [symbol for symbol in listed if not symbol.startswith("hf_")] == []


if __name__ == "__main__":
    for library in LIBRARIES:
        lines = "".join(symbol + "\n" for symbol in exports(sys.argv[1], library))
        (GOLDEN / f"exports-{library}.txt").write_text(lines, "utf-8")
