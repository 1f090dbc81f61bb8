"""The user's pages say what there is: their links, pictures, commands, options and lists."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


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


def test_the_long_description_leads_to_no_file_of_the_repository():
    """Package indexes show it by itself."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        page = ROOT / tomllib.load(file)["project"]["readme"]
    text = page.read_text("utf-8")
    assert "pip install" in text
    assert (
        re.findall(r"\]\((?!https:)|^\[[^\]]+\]:|(?:src|href|srcset)=\"(?!https:)", text, re.M)
        == []
    )


def test_every_page_is_reached_from_the_first():
    first = (DOCS / "README.md").read_text()
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert len(pages) > 20
    assert [page for page in pages if f"({page})" not in first] == ["README.md"]
    site = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in pages if f": {page}\n" not in site] == []


def test_the_site():
    """MkDocs names each link and anchor that leads nowhere, and each page that is in no menu."""
    pytest.importorskip("mkdocs")
    place = tempfile.mkdtemp(prefix="site-")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", place]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown = (Path(place) / "commands.html").read_text("utf-8")
        assert "auto|in-process" in (Path(place) / "install.html").read_text("utf-8")
        assert 'href="carried.html#what-differs-in-a-fork"' in shown
        assert (Path(place) / "ARCHITECTURE.html").exists()
        assert (Path(place) / "examples" / "store.c").exists()
    finally:
        shutil.rmtree(place)


def reference_maker():
    """The module docs/reference.py."""
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    return reference


def test_the_reference_is_that_of_the_sources():
    """Else call docs/reference.py."""
    pytest.importorskip("griffe")
    reference = reference_maker()
    pages = {"python.md": reference.python_page(), "c.md": reference.c_page()}
    for name, text in pages.items():
        assert (DOCS / "reference" / name).read_text("utf-8") == text, name
    functions = 0
    for header in reference.HEADERS:
        declared = re.findall(r"^HF_EXPORT [^(]*?(\w+)\(", (ROOT / header).read_text(), re.M)
        assert [name for name in declared if f"{name}(" not in pages["c.md"]] == []
        functions += len(declared)
    assert functions > 50
    assert "### holdfast.store.Session" in pages["python.md"]


def test_the_table_of_libraries_is_that_of_the_declarations():
    """Else call docs/reference.py. In a process of its own: here other tests have declared rows."""
    pytest.importorskip("griffe")
    pytest.importorskip("holdfast")
    page = (DOCS / "carried.md").read_text("utf-8")
    code = "import reference; print(reference.carried_page(), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=DOCS, capture_output=True, text=True, check=True
    )
    assert done.stdout == page
    assert reference_maker().BELOW in page
    assert re.search(r"^\| `pandas` \| options, .*`NDFrame`", page, re.MULTILINE)


def packages(text):
    """Those of the first call of apt-get in a page."""
    words = re.search(r"apt-get install ((?:.*\\\n)*.*)", text)[1]
    return set(words.replace("\\", " ").split()) - {"--no-install-recommends"}


def test_the_packages_are_those_that_run_installs():
    common = (ROOT / ".ci" / "common.sh").read_text()
    named = re.findall(r"^ +(?:.* )?\|\| printf '([\w. -]+) '$", common, re.MULTILINE)
    wanted = set(" ".join(named).split()) - {"python3"}  # python3-dev brings it
    assert {"gcc", "libzmq3-dev", "otf2-tools"} <= wanted
    for page in (ROOT / "README.md", DOCS / "install.md"):
        assert packages(page.read_text()) == wanted, page


# Not for users: between our own processes, for tests, and names of the C preprocessor.
OWN_VARIABLES = {
    "HOLDFAST_CONNECTION_FILE": "from a kernel to its workers",
    "HOLDFAST_NVML": "a test's stand-in for the driver's library",
    "HOLDFAST_RECORDING": "from a recorded program to the programs that it starts",
    "HOLDFAST_REST_SECONDS": "a test shortens the wait for a rest",
    "HOLDFAST_SCOREP_DIRECTORY": "from a process to the one that it becomes",
    "HOLDFAST_SCOREP_PRELOADED": "from a process to the one that it becomes",
    "HOLDFAST_SCOREP_SUBSYSTEMS": "from a process to its children",
    "HOLDFAST_TAKE_UP": "from a killed kernel to the next one",
}


def test_every_variable_is_told():
    """Those that the sources read."""
    found = set()
    for room in ("kernel", "bindings", "recorder", "monitor", "shm_store", "tool", "serializers"):
        for path in (ROOT / room).rglob("*"):
            if path.suffix in (".c", ".h", ".py"):
                found |= set(re.findall(r'"(HOLDFAST_[A-Z_]+)"', path.read_text("utf-8")))
    assert "HOLDFAST_RUN" in found and len(found) > 8
    page = (DOCS / "commands.md").read_text()
    assert sorted(name for name in found if f"`{name}`" not in page) == sorted(OWN_VARIABLES)


def test_pictures():
    """Each is used, small, and made by the script."""
    text = "".join(page.read_text() for page in PAGES)
    pictures = {path.stem: path for path in (DOCS / "pictures").glob("*.png")}
    made = re.findall(r'^    "(\w+)": \($', (DOCS / "pictures" / "make.py").read_text(), re.M)
    (dark,) = re.findall(r"^DARK = \((.*)\)$", (DOCS / "pictures" / "make.py").read_text(), re.M)
    made += [f"{name}-dark" for name in re.findall(r"\w+", dark)]
    assert sorted(pictures) == sorted(made)
    for name, path in pictures.items():
        assert f"pictures/{name}.png" in text
        assert path.stat().st_size <= 60 * 1024, name


def test_the_tutorials_picture_is_of_the_run_that_the_page_quotes():
    image = pytest.importorskip("PIL.Image")
    quoted = re.findall(r"^[\d.]+ m?s on .*$", (DOCS / "tutorial.md").read_text(), re.M)
    for name in ("timeline", "timeline-dark"):
        assert image.open(DOCS / "pictures" / f"{name}.png").text["line"] == quoted[0]


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
    pages = (ROOT / "ARCHITECTURE.md", DOCS / "internals.md")
    text = "".join(page.read_text() for page in pages)
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


def test_the_architecture_names_what_exists_without_a_path():
    """A file by its name alone, and a function or another word of the sources with a `_`."""
    text = "".join((ROOT / page).read_text() for page in ("ARCHITECTURE.md", "docs/internals.md"))
    rooms = (
        "kernel",
        "bindings",
        "recorder",
        "monitor",
        "shm_store",
        "tool",
        "serializers",
        "tests",
    )
    files = [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file()]
    sources = [path.read_text("utf-8") for path in files if path.suffix in (".c", ".h", ".py")]
    known = {word for source in sources for word in re.findall(r"\w+", source)}
    known |= {path.name for path in files} | {path.stem for path in files}
    named = set(re.findall(r"`([\w-]+\.(?:c|h|py|js))`", text))
    words = set(re.findall(r"`([a-z]+_\w+)`", text)) | set(re.findall(r"`(\w+)\([^`]*\)`", text))
    assert len(named) > 50 and len(words) > 8
    assert sorted((named | words) - known) == []


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
