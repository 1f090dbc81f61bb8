"""The user's pages say what there is: their links, pictures, commands, options and lists."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def anchors(page):
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        assert not path.startswith("http"), target
        there = (page.parent / path) if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_every_page_is_reached_from_the_first():
    first = (DOCS / "README.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if f"({page.name})" not in first] == [
        "README.md"
    ]


def test_pictures():
    """Each is used, small, and made by the script."""
    text = "".join(page.read_text() for page in PAGES)
    pictures = {path.stem: path for path in (DOCS / "pictures").glob("*.png")}
    made = re.findall(r'^    "(\w+)": \($', (DOCS / "pictures" / "make.py").read_text(), re.M)
    assert sorted(pictures) == sorted(made)
    for name, path in pictures.items():
        assert f"pictures/{name}.png" in text
        assert path.stat().st_size <= 60 * 1024, name


def test_each_difference_has_its_test():
    """The list of what differs in a clean process, by number."""
    rows = re.findall(r"^\| (\d+) \| \S", (DOCS / "carried.md").read_text(), re.MULTILINE)
    tests = (ROOT / "tests" / "kernel" / "test_difference.py").read_text()
    assert rows == [str(number) for number in range(1, len(rows) + 1)]
    assert {int(number) for number in re.findall(r"^def test_(\d+)_", tests, re.M)} == set(
        map(int, rows)
    )


# Where the architecture's paths begin.
PLACES = ("", "bindings", "bindings/holdfast", "shm_store")


def test_the_architecture_names_what_exists():
    """Each path, and each function behind one: `kernel/main.c:main`."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    missing = []
    named = re.findall(r"`(\w[\w./]*/(?:[\w.*]+)?)(?::(\w+))?`", text)
    assert len(named) > 50
    for path, function in named:
        found = [file for place in PLACES for file in (ROOT / place).glob(path.rstrip("/"))]
        if not found:
            missing.append(path)
        elif function and not re.search(rf"\b{function}\(", found[0].read_text()):
            missing.append(f"{path}:{function}")
    assert missing == []


def test_every_command_of_a_cell_is_documented():
    """Those in the frontend's table."""
    table = (ROOT / "kernel" / "commands" / "command.c").read_text()
    commands = re.findall(r'^    \{"(%+\w+)", hfi_', table, re.MULTILINE)
    assert "%%execute_with_scorep" in commands and len(commands) > 10
    page = (DOCS / "commands.md").read_text()
    assert [name for name in commands if name not in page] == []


def test_every_option_of_the_installation_is_documented():
    if importlib.util.find_spec("holdfast") is None:
        pytest.skip("the package isn't installed here")
    command = [sys.executable, "-m", "holdfast.install", "--help"]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (DOCS / "install.md").read_text()
    options = set(re.findall(r"--[a-z-]+", usage)) - {"--help"}
    assert options and [name for name in sorted(options) if name not in page] == []
