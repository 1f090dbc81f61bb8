"""What the shared libraries export is what their headers promise and their maps list.

A symbol that appears is an interface that somebody will use; one that disappears breaks
somebody. Both are decided, not found out: the change to the map is part of the commit, and
`.ci/run abi` compares the types as well. HOLDFAST_BUILD names the meson build directory;
./test sets it.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Library, its map, and its installed headers.
LIBRARIES = {
    "holdfast": ("shm_store/libholdfast.map", ["shm_store/include"]),
    "holdfast-kernel": (
        "kernel/libholdfast-kernel.map",
        ["kernel/include", "monitor/include"],
    ),
    "holdfast-worker": ("worker/libholdfast-worker.map", ["worker/include"]),
}
NODE = re.compile(r"^(\w+(?:\.\d+)*) \{(.*?)^\}", re.MULTILINE | re.DOTALL)


def listed(name: str) -> dict[str, str]:
    """Each symbol of the library's map, and its version."""
    text = (ROOT / LIBRARIES[name][0]).read_text("utf-8")
    return {
        symbol: version
        for version, body in NODE.findall(text)
        for symbol in re.findall(r"^ +(\w+);", body, re.MULTILINE)
    }


def shared_library(build: str, name: str) -> Path:
    found = [
        path
        for path in Path(build).rglob(f"lib{name}.so*")
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".symbols")
    ]
    assert len(found) == 1, f"lib{name}.so: {found}"
    return found[0]


def exported(library: Path) -> dict[str, tuple[str, str]]:
    """Each exported symbol, its kind as nm names it, and its version or ""."""
    done = subprocess.run(
        [
            "nm",
            "-D",
            "--defined-only",
            "--with-symbol-versions",
            "--format=posix",
            library,
        ],
        check=True,
        text=True,
        capture_output=True,
    )
    symbols = {}
    for line in done.stdout.splitlines():
        word, kind = line.split()[:2]
        symbol, _, version = word.partition("@@")
        if symbol != version and kind != "A":  # the version's own name
            symbols[symbol] = (kind, version)
    return symbols


@pytest.fixture
def build() -> str:
    return os.environ.get("HOLDFAST_BUILD") or pytest.skip("HOLDFAST_BUILD isn't set")


@pytest.mark.parametrize("name", LIBRARIES)
def test_exports(name, build):
    # Functions only: a data object's size would become a part of each program.
    expected = {symbol: ("T", version) for symbol, version in listed(name).items()}
    assert exported(shared_library(build, name)) == expected


def test_the_kernel_library_knows_no_language_and_no_recorder(build):
    """Their words, and their commands, are the program's: in texts of the library is none of them."""
    done = subprocess.run(
        ["readelf", "--string-dump=.rodata", shared_library(build, "holdfast-kernel")],
        check=True,
        encoding="latin-1",
        capture_output=True,
    )
    texts = done.stdout.lower().splitlines()
    assert any("%%isolated" in line for line in texts)
    foreign = (
        "python",
        "keyboardinterrupt",
        "os.environ",
        "site-packages",
        "pickle",
        "scorep",
        "score-p",
    )
    wrong = [line for line in texts if any(word in line for word in (*foreign, "holdfast-kernel:"))]
    assert not wrong, wrong


# They take no pointer.
NEED_NONE = {
    "hf_version",
    "hf_status_name",
    "hf_kernel_version",
    "hf_kernel_commands_common",
}


@pytest.mark.parametrize(
    ("name", "room"),
    [("holdfast", "shm_store"), ("holdfast-kernel", "kernel"), ("holdfast-worker", "worker")],
)
def test_every_function_is_called_without_its_pointers(name, room):
    text = (ROOT / "tests" / room / "test_argument.c").read_text("utf-8")
    without = {symbol for symbol in listed(name) if not re.search(rf"\b{symbol}\([^;]*NULL", text)}
    assert without == NEED_NONE & listed(name).keys()


@pytest.mark.parametrize("name", LIBRARIES)
def test_maps_have_what_headers_declare(name):
    headers = [path for room in LIBRARIES[name][1] for path in (ROOT / room).rglob("*.h")]
    text = "".join(path.read_text("utf-8") for path in headers)
    declared = re.findall(r"^HF_EXPORT [^;(]*?(\w+)\(", text, re.MULTILINE)
    assert sorted(declared) == sorted(listed(name))


@pytest.mark.parametrize("name", LIBRARIES)
def test_maps_are_in_order(name):
    symbols = list(listed(name))
    assert symbols and symbols == sorted(set(symbols))
    assert [symbol for symbol in symbols if not symbol.startswith("hf_")] == []
