"""The shell that `holdfast.bench` measures the peers in: a process of its own.

It runs the notebook's cells in IPython's shell, without a kernel. After each it dumps all
variables with each peer to a file in shared memory, and has a new process load them. The
processes that load are forked from one that has imported what the notebook has, so that
imports are no part of the figure. One line of JSON a cell on stdout; what the cells
themselves print goes to stderr.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import typing as t

from . import scorep

# Peer -> library, and the options of its dump.
_PEERS: dict[str, tuple[str, dict[str, t.Any]]] = {
    "dill": ("dill", {}),
    "cloudpickle": ("cloudpickle", {}),
    "pickle 5": ("pickle", {"protocol": 5}),
}
# Modules that say nothing about a notebook's imports.
_NOT_IMPORTED = {"__main__", "__mp_main__", "holdfast"}


class Loader:
    """A process that has imported what the notebook has, and forks one to load each dump."""

    def __init__(self, modules: list[str]):
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask(modules)

    def _ask(self, request: t.Any) -> t.Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline() or "null")

    def load(self, library: str, path: str) -> float | None:
        """Seconds that loading took in a new process, or None if it failed."""
        return self._ask([library, path])

    def close(self) -> None:
        self._process.communicate()


def serve() -> None:
    """The loader's own side: the first line has modules, each other one a dump."""
    for name in json.loads(sys.stdin.readline()):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    print("true", flush=True)
    for line in sys.stdin:
        library, path = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, json.dumps(_load(library, path)).encode())
            os._exit(0)
        os.close(writing)
        with open(reading) as answer:
            print(answer.read() or "null", flush=True)
        os.waitpid(child, 0)


def _load(library: str, path: str) -> float | None:
    module = importlib.import_module(library)
    start = time.perf_counter()
    try:
        with open(path, "rb") as file:
            module.load(file)
    except Exception:
        return None
    return time.perf_counter() - start


def _can_carry(library: str, options: dict[str, t.Any], value: object) -> bool:
    try:
        data = importlib.import_module(library).dumps(value, **options)
    except Exception:
        return False
    # Plain pickle finds classes and functions of the notebook by their names, which a
    # new process doesn't have.
    return library != "pickle" or b"__main__" not in data[: 1 << 20]


def _dump(library: str, options: dict[str, t.Any], names: dict[str, t.Any], path: str) -> float:
    module = importlib.import_module(library)
    start = time.perf_counter()
    with open(path, "wb") as file:
        module.dump(names, file, **options)
    return time.perf_counter() - start


class Figure(t.TypedDict):
    """The time that one peer needed to dump and load all names, in ms, and the names that it
    lost."""

    ms: float
    lost: list[str]


class Record(t.TypedDict):
    """The line of JSON that follows each cell."""

    number: int
    error: str
    peers: dict[str, Figure]


def measure(
    peer: str, names: dict[str, t.Any], lost: set[str], loader: Loader, directory: str
) -> Figure:
    """Dump and load all names; those that the peer can't carry are found and left out."""
    library, options = _PEERS[peer]
    path = os.path.join(directory, "state")
    while True:
        kept = {name: value for name, value in names.items() if name not in lost}
        try:
            seconds = _dump(library, options, kept, path)
        except Exception:
            loaded = None
        else:
            loaded = loader.load(library, path)
        if loaded is not None:
            return {"ms": (seconds + loaded) * 1e3, "lost": sorted(lost & names.keys())}
        found = {name for name, value in kept.items() if not _can_carry(library, options, value)}
        if not found:  # only all together fail: nothing is carried
            found = set(kept)
        lost |= found


def _variables(shell: t.Any) -> dict[str, t.Any]:
    """The notebook's variables, as the Score-P kernel carries them: no modules."""
    return {
        name: value
        for name, value in shell.user_ns.items()
        if name not in shell.user_ns_hidden
        and not name.startswith("_")
        and not isinstance(value, types.ModuleType)
    }


def _imported(before: set[str]) -> list[str]:
    names = {name.partition(".")[0] for name in set(sys.modules) - before}
    return sorted(names - _NOT_IMPORTED)


def run(path: str) -> int:
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    class Shell(InteractiveShell):
        def enable_gui(self, gui=None):
            pass  # figures are drawn, and shown to nobody

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peers = [peer for peer in _PEERS if importlib.util.find_spec(_PEERS[peer][0])]
    for peer in peers:
        importlib.import_module(_PEERS[peer][0])
    shell = Shell.instance()
    scorep.install_alias()  # regions that a cell marks; nothing records them here
    before = set(sys.modules)
    lost: dict[str, set[str]] = {peer: set() for peer in peers}
    node = nbformat.read(path, as_version=4)
    sources = [
        cell.source for cell in node.cells if cell.cell_type == "code" and cell.source.strip()
    ]
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    for number, source in enumerate(sources, 1):
        with contextlib.redirect_stdout(io.StringIO()):
            result = shell.run_cell(_without_own_magic(source))
        error = result.error_before_exec or result.error_in_exec
        failure = f"{type(error).__name__}: {error}" if error else ""
        loader = Loader(_imported(before))
        names, figures = _variables(shell), {}
        with tempfile.TemporaryDirectory(dir=shared) as directory:
            for peer in peers:
                figures[peer] = measure(peer, names, lost[peer], loader, directory)
        loader.close()
        record: Record = {"number": number, "error": failure, "peers": figures}
        print(json.dumps(record), file=out, flush=True)
    return 0


# Those of Holdfast's kernel; in an ordinary shell the code below them runs as it is.
_OWN_MAGICS = ("%%execute_with_scorep", "%%isolated")


def _without_own_magic(source: str) -> str:
    lines = source.splitlines()
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith(_OWN_MAGICS):
        del lines[first]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--load"]:
        serve()
    else:
        status = run(sys.argv[1])
        sys.stderr.flush()
        os._exit(status)  # a notebook's threads must not keep it
