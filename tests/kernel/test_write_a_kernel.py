"""docs/write-a-kernel.md: its programs are compiled, and its cells run and show what the page says.

Cells run in a kernel of the tests', which waits until variables are saved, and not for a second.
"""

import re
import shlex
import shutil
import subprocess
import sys

import kernel_programs
import pytest

PAGE = kernel_programs.ROOT / "docs" / "write-a-kernel.md"
EXAMPLE = kernel_programs.ROOT / "examples/kernel_smallest/calculator.c"
FILE = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = PAGE.read_text("utf-8")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The page's files and its compiled programs."""
    directory = tmp_path_factory.mktemp("page")
    for name, text in FILE.findall(TEXT):
        (directory / name).write_text(text)
    shutil.copy(EXAMPLE, directory)
    for source in directory.glob("*.c"):
        assert f"$ cc {source.name} -o {source.stem} $(pkg-config --cflags --libs" in TEXT
        kernel_programs.compiled(source, directory / source.stem, warns=False)
    return directory


@pytest.fixture(scope="module")
def show(directory):
    """The page's function that prints a message."""
    text = (directory / "cells.py").read_text()
    names = {}
    exec(text[text.index("def show") : text.index("program, *cells")], names)
    return names["show"]


@pytest.mark.parametrize("block", CONSOLE.findall(TEXT))
def test_cells_of_the_page(block, directory, show, start_kernel, capsys):
    (line,) = re.findall(r"^\$ python cells.py (.*(?:\n> .*)*)", block, re.MULTILINE)
    wanted = block.partition(line + "\n")[2]
    program, *cells = shlex.split(line.replace("\n> ", "\n"))
    kernel = start_kernel(spec=kernel_programs.spec(directory / program))
    capsys.readouterr()
    for cell in cells:
        if " = " in cell and "crash" not in cell:
            with kernel_programs.saved(kernel):
                outcome = kernel.run(cell)
        else:
            outcome = kernel.run(cell)
        for message in outcome.messages:
            show(message)
    text = capsys.readouterr().out
    pattern = re.escape(wanted).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, text), text


def test_the_tool_of_the_page(directory):
    command = [sys.executable, "cells.py", "./shout", "hello"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)
    assert done.stdout == "HELLO\n", done.stderr
