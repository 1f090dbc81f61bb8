"""The tree is laid out as ARCHITECTURE.md says, and its arrows point one way.

Read here are the `#include` lines of the C sources and the `import` lines of the Python
package. An arrow that the tables below don't list fails: either the include is wrong, or
the architecture changed, and then the table and ARCHITECTURE.md change with it.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import layers
import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("shm_store", "serializers", "tool", "monitor", "kernel", "recorder", "worker", "bindings")
NOT_SOURCES = {".git", ".venv", "build", "out", "__pycache__", "dist"}

TOP = set(
    """shm_store serializers tool monitor kernel recorder worker bindings web bench tests examples docs .ci setup.cfg
    meson.build meson.options pyproject.toml mkdocs.yml README.md ARCHITECTURE.md CHANGELOG.md LICENSE run test
    .clang-format .gitignore""".split()
)

# Who may include whose headers, by the longest prefix. A directory may include its own.
PUBLIC = {"shm_store/include", "serializers/include"}
ARROWS = {
    "shm_store/include": set(),
    "shm_store/base": {"shm_store/include"},
    "shm_store/layout": {"shm_store/include", "shm_store/base"},
    "shm_store/platform": {"shm_store/include", "shm_store/base"},
    "shm_store/tuning": {"shm_store/include"},
    "shm_store/engine": {
        "shm_store/include",
        "shm_store/tuning",
        "shm_store/base",
        "shm_store/layout",
        "shm_store/platform",
    },
    "shm_store/arrays": {"shm_store/include", "shm_store/base"},
    "shm_store/saved": {"shm_store/include", "shm_store/base", "shm_store/platform"},
    "serializers/include": {"shm_store/include"},
    "serializers/codecs": PUBLIC | {"shm_store/base"},
    "tool": PUBLIC | {"serializers/codecs", "shm_store/base"},
    "serializers/python": PUBLIC | {"serializers/codecs", "shm_store/base"},
    "kernel/include": {"shm_store/include"},
    "kernel/wire": {"shm_store/include", "shm_store/base", "kernel/include"},
    "kernel/commands": {"shm_store/include", "kernel/include", "kernel/wire"},
    "kernel/session": PUBLIC
    | {"kernel/include", "kernel/commands", "kernel/wire", "kernel/workers"}
    | {"monitor/include", "monitor", "shm_store/base"},
    "kernel/workers": PUBLIC | {"kernel/include", "kernel/wire", "shm_store/platform"},
    "kernel": PUBLIC | {"kernel/include", "kernel/commands"},
    "monitor/include": {"shm_store/include"},
    "monitor": PUBLIC | {"monitor/include", "shm_store/platform", "shm_store/base"},
    "recorder": PUBLIC | {"shm_store/platform", "shm_store/base"},
    "worker/include": {"shm_store/include"},
    "worker": {"shm_store/include", "shm_store/base", "worker/include"}
    | {"kernel/workers", "kernel/wire"},  # frames, on both sides
    "bindings/store": PUBLIC
    | {"worker", "serializers/codecs", "serializers/python", "shm_store/tuning", "shm_store/base"}
    | {"kernel/workers"}  # the table of frames
    | {"shm_store/arrays"},  # Arrow's types and structs
    "bindings/monitor": {"monitor/include"},
    "bindings/recorder": PUBLIC | {"recorder"},
    "bindings/views": PUBLIC | {"recorder", "shm_store/base"},  # definitions and profiles
}

# From each room of the package: the rooms whose modules it may import, inside of functions, too. Of the modules that
# stand beside the rooms it may import those in OPEN.
PYTHON_ARROWS = {
    "base": set(),
    "pages": {"base"},
    "carry": {"base"},
    "libraries": {"base", "carry"},
    "scorep": {"base"},
    "monitor": {"base", "pages"},
    "views": {"base", "pages", "scorep", "monitor"},
    "report": {"base", "pages", "views", "scorep", "monitor"},
    "commands": {"base", "carry", "views", "monitor"},
    "worker": {"base", "carry", "libraries", "scorep", "monitor", "commands"},
}
OPEN = {"alias", "codecs", "doctor", "errors", "marshal"}

# Libraries by the header's beginning, and the directories that may use each.
LIBRARIES = {
    "Python.h": {"serializers/python"}
    | {f"bindings/{room}" for room in ("store", "recorder", "views", "monitor")},
    "structmember.h": {"serializers/python", "bindings/store"},
    "datetime.h": {"serializers/python"},
    "frameobject.h": {"bindings/store", "bindings/recorder"},
    "opcode.h": {"bindings/recorder"},
    "internal/": {"bindings/recorder"},
    "numpy/": {"bindings/store", "serializers/python"},
    "lz4": {"shm_store/saved"},
    "msgpack": {"serializers/codecs", "serializers/python", "kernel/workers"},
    "zmq": {"kernel/session", "kernel"},
    "openssl/": {"kernel/wire"},
    "jansson": {"kernel/wire", "kernel/session", "kernel/workers", "kernel", "worker"},
    "otf2/": {"recorder", "bindings/views"},
}

STANDARD = set(
    """assert complex ctype errno fenv float fnmatch inttypes iso646 limits locale math setjmp
    signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn
    string tgmath threads time uchar wchar wctype
    dirent dlfcn fcntl ftw getopt grp poll pthread pwd sched semaphore spawn strings termios
    unistd arpa/inet netdb netinet/in netinet/tcp sys/file sys/ioctl sys/mman sys/param
    sys/random sys/resource sys/select sys/socket sys/stat sys/statvfs sys/time sys/types
    sys/uio sys/un sys/utsname sys/wait""".split()
)
# Not POSIX: in a platform/ directory, or inside an #if.
ONE_SYSTEM = re.compile(
    r"linux/|asm/|mach/|elf\.h|link\.h|resolv\.h|malloc\.h|libproc|emmintrin|immintrin|nmmintrin|arm_acle|cpuid|endian|"
    r"sys/(prctl|syscall|epoll|eventfd|signalfd|timerfd|vfs|statfs|sysinfo|sysctl|"
    r"event|mount|inotify|auxv|pidfd)"
)

# What the Python package may import: always these, and the optional ones where they are
# needed only, so that Holdfast works without them.
RUNTIME = set(sys.stdlib_module_names) | set(
    """holdfast IPython ipykernel jupyter_client jupyter_core traitlets comm msgpack
    packaging cloudpickle matplotlib_inline tornado pygments""".split()
)
OPTIONAL = set(
    """numpy pandas scipy torch tensorflow jax keras pyarrow polars PIL nbclient nbformat psutil
    debugpy pydevd _pydevd_bundle matplotlib scorep zmq pytest otf2 holoviews rich""".split()
)

MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|Users)/\w|(?<![\w.$}/-])/home/\w")

# Rooms that are tested through another one as well.
TESTED_IN = {"recorder": ("bindings",)}

# Directories that are one noun: their parts mean nothing without each other.
WHOLE_DIRECTORIES = {
    "libraries",
    "monitor",
    "pages",
    "recorder",
    "report",
    "scorep",
    "views",
    "worker",
}

# No more files than so many may need each other.
LARGEST_CYCLE = 2

# Sources without a test of their own name, by the test that runs them. The parts of the
# store's engine and the codecs in python/ show themselves only through the whole.
TESTED_BY = {
    "tests/shm_store/test_commit.c": "shm_store/engine/draft.c shm_store/engine/handle.c",
    "tests/shm_store/test_region.c": "shm_store/engine/block.c shm_store/engine/pin.c",
    "tests/shm_store/test_snapshot.c": "shm_store/engine/diff.c",
    "tests/crash/test_store_crash.c": "shm_store/engine/attach.c",
    "tests/kernel/test_finalizers.py": """
        bindings/holdfast/carry/finalizers.py serializers/python/finalizers.c""",
    "tests/kernel/test_verify.py": "bindings/holdfast/commands/verify.py",
    "tests/bindings/test_install.py": "bindings/holdfast/first_run.py",
    "tests/oracle/test_oracle.py": """
        bindings/holdfast/carry/enumerations.py""",
    "tests/bindings/test_not_carried.py": """ bindings/holdfast/carry/refused.py""",
    "tests/bindings/test_names.py": """
        bindings/store/entry_sink.c bindings/store/entry_source.c bindings/store/record.c
        serializers/python/graph.c serializers/python/graph_ask.c serializers/python/graph_groups.c
        serializers/python/graph_walk.c serializers/python/module.c
        serializers/python/pickle.c serializers/python/pointer_map.c
        serializers/python/python_error.c""",
    "tests/bindings/test_identity.py": """
        bindings/holdfast/carry/restoring.py serializers/python/array.c
        serializers/python/buffer.c""",
    "tests/bindings/test_pickling.py": """
        bindings/holdfast/carry/context.py bindings/holdfast/carry/reasons.py""",
    "tests/bindings/test_store.py": "bindings/store/region_type.c",
    "tests/worker/test_fork.c": "worker/descriptors.c",
    "tests/worker/test_channel.c": "worker/tally.c",
    "tests/kernel/test_kernel_smallest.py": """
        worker/asked.c worker/forked.c worker/forking.c worker/in_process.c worker/isolated.c
        worker/loop.c worker/self.c worker/running.c worker/saving.c worker/server.c
        worker/shown.c worker/steps.c worker/where.c""",
    "tests/bindings/test_control.py": "bindings/store/channel_type.c",
    "tests/bindings/test_addresses.py": "serializers/python/addresses.c",
    "tests/bindings/test_array_reader.py": """
        bindings/store/member_meta.c serializers/python/array_meta.c""",
    "tests/bindings/test_names_scan.py": "serializers/python/graph_types.c",
    "tests/bindings/test_names_stored.py": "serializers/python/pickle_compare.c",
    "tests/bindings/test_session_mapping.py": "serializers/python/foreign.c",
    "tests/bindings/test_marshal.py": "bindings/store/stream_codec.c",
    "tests/bindings/test_files.py": """
        bindings/holdfast/carry/handles.py""",
    "tests/kernel/test_widgets.py": """
        kernel/session/comms.c""",
    "tests/kernel/test_perfreport.py": "kernel/session/ends.c",
    "tests/kernel/test_command.c": "kernel/commands/directive.c",
    "tests/kernel/test_takeup.py": "kernel/workers/reaper.c",
    "tests/kernel/test_device_lease.py": "bindings/holdfast/carry/device_lease.py",
    "tests/bindings/test_numpy_allocator.py": "bindings/store/arena_allocator.c",
}


def sources(*suffixes: str, under: tuple[str, ...] = (".",)) -> list[Path]:
    found = []
    for start in under:
        for directory, names, files in os.walk(ROOT / start):
            names[:] = [
                name
                for name in names
                if name not in NOT_SOURCES and not name.endswith(("_cache", ".egg-info"))
            ]
            found += [Path(directory, file) for file in files if file.endswith(suffixes)]
    return sorted(found)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def place(name: str) -> str:
    """The directory of ARROWS to which a path belongs."""
    parents = [key for key in ARROWS if name.startswith(key + "/")]
    return max(parents, key=len, default="")


def includes(path: Path) -> list[tuple[str, str, int]]:
    """Each include of a file: "" or <>, the header, and how deep in #if it stands."""
    found = []
    depth = 0
    for line in path.read_text("utf-8").splitlines():
        word = re.match(r"\s*#\s*(\w+)", line)
        if not word:
            continue
        if word[1] in ("if", "ifdef", "ifndef"):
            depth += 1
        elif word[1] == "endif":
            depth -= 1
        elif match := re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line):
            found.append((match[1], match[2], depth))
    return found


def resolve(path: Path, header: str) -> str | None:
    """The file of the tree that an include means, or None."""
    roots = [path.parent, ROOT]
    for room in ROOMS:
        roots += [
            ROOT / room,
            ROOT / room / "include",
            ROOT / room / "include/holdfast",
        ]
        roots += [child for child in (ROOT / room).iterdir() if child.is_dir()]
    for root in roots:
        if (root / header).is_file():
            return relative((root / header).resolve())
    return None


def wrong_include(path: Path, quote: str, header: str, depth: int) -> str | None:
    here = place(relative(path))
    target = resolve(path, header)
    if target is not None:
        there = place(target)
        allowed = there == here or there in ARROWS.get(here, set())
        return None if allowed else f"{here} must not include {target}"
    for library, users in LIBRARIES.items():
        if header.startswith(library):
            return None if here in users else f"{here} must not use <{header}>"
    if header.removesuffix(".h") in STANDARD:
        return None
    if ONE_SYSTEM.match(header):
        guard = 2 if path.suffix == ".h" else 1
        if here.endswith("/platform") or depth >= guard:
            return None
        return f"<{header}> is one system's: put it into platform/ or inside an #if"
    return f"<{header}> is in no table"


def test_rooms():
    command = ["git", "ls-files", "-z"]  # a user's own files may lie beside them
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("this isn't a checkout")
    names = {name.partition("/")[0] for name in listed.stdout.split("\0") if name}
    unknown = names - TOP
    assert not unknown, "a room or file that ARCHITECTURE.md doesn't know"
    assert not TOP - names, "missing"


def test_includes_follow_the_arrows():
    wrong = []
    for path in sources(".c", ".h", under=ROOMS):
        for include in includes(path):
            if complaint := wrong_include(path, *include):
                wrong.append(f"{relative(path)}: {complaint}")
    assert not wrong, "\n".join(wrong)


def test_arrows_are_checked(tmp_path):
    # The table has teeth: these must be refused.
    engine = ROOT / "shm_store/engine/imagined.c"
    assert wrong_include(engine, "<", "lz4.h", 0)
    assert wrong_include(engine, "<", "Python.h", 0)
    assert wrong_include(engine, '"', "holdfast/codec.h", 0)
    assert wrong_include(engine, "<", "sys/epoll.h", 0)
    assert wrong_include(engine, "<", "curl/curl.h", 0)
    assert not wrong_include(engine, "<", "stdint.h", 0)
    assert not wrong_include(engine, '"', "holdfast/store.h", 0)
    assert wrong_include(ROOT / "kernel/wire/imagined.c", "<", "zmq.h", 0)
    assert wrong_include(ROOT / "kernel/commands/imagined.c", '"', "session/session.h", 0)


@pytest.mark.parametrize("language", ["C", "Python"])
def test_no_cycles(language):
    edges = layers.c_edges() if language == "C" else layers.python_edges()
    for group in layers.components(edges):
        assert len(group) <= LARGEST_CYCLE, (
            f"{len(group)} files need each other (python tests/support/layers.py):\n"
            + layers.describe(group, edges)
        )


def test_engine_is_as_drawn():
    """A file of the engine calls files of its line in docs/internals.md and of those below."""
    page = (ROOT / "docs/internals.md").read_text("utf-8")
    picture = page.partition("## The engine's layers")[2].split("```")[1]
    names = {path.stem for path in (ROOT / "shm_store/engine").glob("*.c")}
    height = {}
    for number, line in enumerate(reversed(picture.strip("\n").splitlines())):
        drawn = re.split(r"\s{4,}", line.strip())[0]
        height |= dict.fromkeys(re.findall(r"\w+", drawn), number)
    assert height.keys() == names
    wrong = []
    edges = layers.c_edges(ROOT, ("shm_store/engine",))
    for name, needed in edges.items():
        low = [other for other in needed if other.endswith(".c")]
        wrong += [
            f"{name} -> {other}: {', '.join(needed[other])}"
            for other in low
            if height[Path(other).stem] > height[Path(name).stem]
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("noun", ["cell", "worker"])
def test_states_have_one_writer(noun):
    """Members of a cell are written by its own file alone; of a worker the state is."""
    members = r"\w+" if noun == "cell" else "state"
    write = re.compile(rf"\b(?:{noun}|execution)(?:\.|->)({members}) (?:[|+]?=) ")
    wrong = [
        f"{relative(path)}: {match[0]}"
        for path in sources(".c", under=("kernel/session", "kernel/workers"))
        for match in write.finditer(path.read_text("utf-8"))
        if path.name != f"{noun}.c"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "path", ["session/cell.c", "workers/worker.c", "session/rollback.c"], ids=lambda path: path[:-2]
)
def test_states_change_in_one_function(path):
    """The one that looks the move up."""
    text = (ROOT / "kernel" / path).read_text("utf-8")
    assert (
        len(re.findall(r"->state = ", text))
        == len(re.findall(r"_can_move\(\w+->state, to", text))
        == 1
    )


def test_cycles_are_seen(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    (room / "low.h").write_text("int hfi_low(int a);\nextern int hfi_sum, *hfi_list[2];\n")
    (room / "low.c").write_text(
        "int hfi_sum, *hfi_list[2] = {0};\nstatic int high(void) { return 1; }\n"
        "int hfi_low(int a) {\n    return high() + hfi_text(a); /* hfi_high */\n}\n"
    )
    (room / "text.h").write_text("static inline int\nhfi_text(int a) { return hfi_list[a]; }\n")
    (room / "high.c").write_text("int high;\nint hfi_high(void) { return hfi_low(2); }\n")
    edges = layers.c_edges(tmp_path, ("room",))
    assert edges["room/low.c"] == {"room/text.h": {"hfi_text"}}
    assert edges["room/high.c"] == {"room/low.c": {"hfi_low"}}
    assert layers.components(edges) == [["room/low.c", "room/text.h"], ["room/high.c"]]
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from . import one\n")
    (package / "one.py").write_text("def late():\n    from .two import Two\n")
    (package / "two.py").write_text(
        "from typing import TYPE_CHECKING\nimport package.one\n"
        "if TYPE_CHECKING:\n    from . import Late\n"
    )
    edges = layers.python_edges(package)
    assert edges["package/one.py"] == {"package/two.py": {"line 2"}}
    assert layers.components(edges)[0] == ["package/one.py", "package/two.py"]
    assert layers.components(edges)[1] == ["package/__init__.py"]


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.split(".")[0]]
    return []


def test_imports_of_the_package():
    wrong = []
    for path in sources(".py", under=("bindings/holdfast",)):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            for name in imported(node):
                if name not in RUNTIME | OPTIONAL:
                    wrong.append(f"{relative(path)}:{node.lineno}: import {name}")
        if path.parent.parent.name == "libraries" and path.name != "__init__.py":
            continue  # imported when a value of its library is first met
        for node in tree.body:
            for name in imported(node):
                if name not in RUNTIME:
                    wrong.append(f"{relative(path)}:{node.lineno}: {name} is optional")
    assert not wrong, "\n".join(wrong)


def mirrors(path: Path) -> bool:
    """Whether tests/<room>/ has a test_<noun> or test_<noun>_... for this source.

    A noun of two words is helped by that of its first: plain_decoder.c is a part of what
    test_plain tests. So is a source in a directory that is one noun, such as recorder/.
    """
    room, *directories = relative(path).split("/")[:-1]
    words = path.stem.strip("_").split("_")
    nouns = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
    nouns |= WHOLE_DIRECTORIES & {room, *directories}
    wanted = re.compile(rf"test_({'|'.join(map(re.escape, nouns))})(_\w+)?\.(c|py)$")
    rooms = [ROOT / "tests" / room for room in (room, *TESTED_IN.get(room, ()))]
    return any(wanted.match(test.name) for tests in rooms for test in tests.iterdir())


def sources_to_test() -> list[Path]:
    paths = sources(".c", under=ROOMS) + sources(".py", under=("bindings/holdfast",))
    return [path for path in paths if path.name not in ("__init__.py", "__main__.py")]


def test_imports_follow_the_arrows():
    wrong = []
    for source, edges in layers.python_edges().items():
        room = source.removeprefix("bindings/holdfast/").split("/")[0]
        for needed in edges:
            if needed.endswith(".pyi"):  # an extension
                continue
            other = needed.removeprefix("bindings/holdfast/").split("/")[0].removesuffix(".py")
            if room in PYTHON_ARROWS and other not in PYTHON_ARROWS[room] | OPEN | {
                room,
                "__init__",
            }:
                wrong.append(f"{source} must not import {needed}")
    assert not wrong, "\n".join(wrong)
    rooms = {path.parent.name for path in (ROOT / "bindings/holdfast").glob("*/__init__.py")}
    assert rooms == set(PYTHON_ARROWS)


def test_every_source_has_its_test():
    elsewhere = {name for names in TESTED_BY.values() for name in names.split()}
    missing = {relative(path) for path in sources_to_test() if not mirrors(path)} - elsewhere
    assert not missing, "no tests/<room>/test_<noun>: " + ", ".join(sorted(missing))
    named = elsewhere | set(TESTED_BY)
    stale = {name for name in named if not (ROOT / name).is_file()}
    assert not stale, "in the table, but not in the tree: " + ", ".join(sorted(stale))
    needless = {name for name in elsewhere if mirrors(ROOT / name)}
    assert not needless, "in the table, but with a test of their own: " + ", ".join(
        sorted(needless)
    )


def test_a_noun_names_one_file():
    seen: dict[str, str] = {}
    twice = []
    for path in sources(".c", under=ROOMS):
        other = seen.setdefault(path.name, relative(path))
        if other != relative(path):
            twice.append(f"{relative(path)} and {other}")
    assert not twice, twice


def static_functions(text: str) -> list[str]:
    """The static functions that a C file defines, laid out as .clang-format has it."""
    return re.findall(r"^(?:[A-Z]+ )?static [^;={}]*?^(\w+)\([^;{}]*\{$", text, re.MULTILINE)


def wrong_nouns(files: dict[str, str]) -> list[str]:
    """Of the texts of C files: names of one word, and those that stand in more than two files."""
    places: dict[str, list[str]] = {}
    for path, text in files.items():
        for name in set(static_functions(text)):
            places.setdefault(name, []).append(path)
    return [
        f"{name} in {', '.join(found)}"
        for name, found in sorted(places.items())
        if "_" not in name.strip("_") or len(found) > 2
    ]


def test_a_static_function_carries_its_noun():
    """In a debugger, a profile or a search, its name alone says what it is about."""
    files = {relative(path): path.read_text("utf-8") for path in sources(".c", under=ROOMS)}
    assert sum(len(static_functions(text)) for text in files.values()) > 2000
    wrong = wrong_nouns(files)
    assert not wrong, "\n".join(wrong)
    other = "static int\ncount_it(void) {\n    return 1;\n}\n"
    assert not wrong_nouns({"a.c": other, "b.c": other})
    assert wrong_nouns({"a.c": other, "b.c": other, "c.c": other}) == ["count_it in a.c, b.c, c.c"]
    assert wrong_nouns({"a.c": "static HF_CHECK hf_status\nsettle(int a,\n       int b) {\n"})
    assert wrong_nouns({"a.c": "ALONE static void\nleave(int a) {\n"})


def test_a_type_is_defined_in_one_place():
    """Two rooms, too, have no private types of one name."""
    opening = re.compile(r"^(?:typedef )?(?:struct|enum|union) (hfi?_\w+) \{$", re.MULTILINE)
    seen: dict[str, str] = {}
    twice = []
    for path in sources(".c", ".h", under=ROOMS):
        for name in opening.findall(path.read_text("utf-8")):
            if name in seen:
                twice.append(f"{name} in {seen[name]} and {relative(path)}")
            seen[name] = relative(path)
    assert len(seen) > 200 and not twice, twice


def test_every_c_file_opens_with_an_essay():
    short = []
    for path in sources(".c", under=ROOMS):
        text = path.read_text("utf-8")
        opening = text[: text.find("*/")] if text.startswith("/*") else ""
        if opening.count("\n") + 1 < 5:
            short.append(relative(path))
    assert not short, "no essay of 5 lines at the top: " + ", ".join(short)


def c_functions(text: str) -> list[tuple[str, int, int]]:
    """Name, first line and length of each function, laid out as .clang-format has it."""
    found = []
    name, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"(\w+)\(", line):
            name, first = match[1], number
        elif line == "}" and name:
            found.append((name, first, number - first + 1))
            name = ""
        elif line.endswith(";") and line[:1].strip():
            name = ""
    return found


def python_functions(text: str) -> list[tuple[str, int, int]]:
    """Name, first line and length of each function; its docstring doesn't count."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds):
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            found.append((node.name, node.lineno, length))
    return found


# A comment names a status, or the function that has the same ones.
STATUS = re.compile(r"HF_(E_)?[A-Z]+|[Ss]tatuses|Locks|\b[Aa]s[\s*]+\w+|\bThe same\b")
FALLIBLE = re.compile(
    r"HF_CHECK hf_status\s+(\w+)\(|^hf_status\s+(\w+)\([^;]*?\)\s*HF_CHECK;", re.MULTILINE
)


def test_fallible_functions_name_their_statuses():
    """In the comment before them; in private headers the comment at the top may do it for all."""
    silent, seen = [], 0
    for path in sources(".h", under=ROOMS):
        text = path.read_text("utf-8")
        top = "" if "include" in path.parts else text[: text.index("*/")]
        for match in FALLIBLE.finditer(text):
            seen += 1
            paragraph = text[text.rindex("\n\n", 0, match.start()) : match.start()]
            comment = " ".join(re.findall(r"/\*.*?\*/", paragraph, re.DOTALL)[-1:])
            if not STATUS.search(comment) and not re.search(r"HF_E_|[Ss]tatuses", top):
                silent.append(f"{relative(path)}: {match[1] or match[2]}")
    assert seen > 200
    assert not silent, "their comments name no status: " + ", ".join(silent)


@pytest.mark.parametrize("suffix", [".c", ".h", ".py"])
def test_sizes(suffix):
    long = []
    for path in sources(suffix):
        text = path.read_text("utf-8")
        if text.count("\n") > 800:
            long.append(f"{relative(path)}: more than 800 lines")
        functions = python_functions if suffix == ".py" else c_functions
        for name, first, length in functions(text):
            if length > 70:
                long.append(f"{relative(path)}:{first}: {name} has {length} lines")
    assert not long, "\n".join(long)


def test_sizes_are_seen():
    text = "static int\nshort_one(int a)\n{\n" + "    a++;\n" * 80 + "    return a;\n}\n"
    assert c_functions(text) == [("short_one", 2, 84)]
    text = 'def short_one(a):\n    """One.\n\n    Two.\n    """\n' + "    a += 1\n" * 80
    assert python_functions(text) == [("short_one", 1, 81)]


def test_no_path_of_one_machine():
    found = []
    suffixes = (".c", ".h", ".py", ".pyi", ".md", ".toml", ".cfg", ".build")
    scripts = [ROOT / "run", ROOT / "test", *sources("", under=(".ci",))]
    for path in sources(*suffixes, ".txt", ".ipynb", ".sh") + scripts:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if path != Path(__file__) and MACHINE_PATH.search(line):
                found.append(f"{relative(path)}:{number}: {line.strip()[:80]}")
    assert not found, "\n".join(found)


def test_what_analysers_found_is_explained_where_it_is_still_there():
    analyse = "import analyse; assert analyse.explanations()"
    subprocess.run([sys.executable, "-Bc", analyse], cwd=ROOT / ".ci", check=True)
