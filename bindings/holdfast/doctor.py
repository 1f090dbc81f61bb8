"""The command ``holdfast doctor``: what works here, what doesn't, and what to do about it.

Each part is tried by the code that uses it: no version number is believed. It is "ok"; "absent", a part that Holdfast
does without; "limited", it works less well than it could; or "broken", it should work and doesn't, which makes the exit
status 1.

``%holdfast doctor`` runs the same in a process of its own, so that the notebook's process stays as it is, and adds the
libraries that the notebook has imported. In a shell ``--import`` imports what is installed, each in a process of its
own.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from holdfast.base import program
from holdfast.base.tabular import count, size

from . import libraries

__all__ = ["main", "run"]

_SHOWN = ("ipython", "ipykernel", "jupyter_client", "jupyter_core", "jupyterlab", "notebook")
_DRIVER_S = 5.0  # how long the GPUs' driver may take
_CHILD_S = 300
_REPORT = "please report this"
# By the number that _store._means gives.
_WRITTEN_PAGES = (
    ("ok", "are found by PAGEMAP_SCAN", ""),
    ("limited", "are found by /proc/self/pagemap, page by page", "Linux 6.7 has PAGEMAP_SCAN"),
    ("limited", "are found by comparing all bytes", "let the container read /proc/self/pagemap"),
)


class _Finding(t.NamedTuple):
    """How a part is, and what to do about it."""

    name: str
    state: str
    text: str
    advice: str = ""


_Found = Iterator[tuple[str, ...]]  # the fields of a _Finding


# ---- what is installed


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _versions() -> _Found:
    from packaging.requirements import Requirement

    own = metadata.metadata("holdfast")
    others = [f"{name} {_version(name)}" for name in _SHOWN if _version(name)]
    text = f"Holdfast {own['Version']}, Python {platform.python_version()}, {', '.join(others)}"
    wrong = [
        f"{need} (here: {_version(need.name) or 'none'})"
        for need in map(Requirement, metadata.requires("holdfast") or ())
        if (need.marker is None or need.marker.evaluate({"extra": ""}))
        and not need.specifier.contains(_version(need.name) or "0", prereleases=True)
    ]
    python = "{}.{}".format(*sys.version_info)
    if wrong:
        yield "versions", "broken", text, f"Holdfast needs {'; '.join(wrong)}"
    elif f"Programming Language :: Python :: {python}" not in own.get_all("Classifier", ()):
        yield "versions", "limited", text, f"Holdfast isn't tested with Python {python}"
    else:
        yield "versions", "ok", text


def _kernel() -> _Found:
    from jupyter_client.kernelspec import KernelSpecManager

    from . import first_run, install

    try:
        missing = first_run.find_missing(install.kernel_program())
    except install.InstallError as error:
        missing = str(error)
    if missing:
        yield "kernel", "broken", *missing.split("\n", 1)
    specs = KernelSpecManager().find_kernel_specs().items()
    ours = {name: Path(place) for name, place in sorted(specs) if install.is_ours(Path(place))}
    places, advice = set(), "python -m holdfast.install --sys-prefix"
    for name, directory in ours.items():
        command = json.loads((directory / "kernel.json").read_text("utf-8"))["argv"]
        programs = command[0], command[command.index("--python") + 1]
        places.add(os.path.dirname(programs[1]))
        for gone in [one for one in programs if not os.access(one, os.X_OK)]:
            yield "kernel", "broken", f"{name} in {directory}: {gone} isn't there", advice
    if not ours:
        yield "kernel", "absent", "Jupyter knows no kernel of Holdfast's", advice
    elif os.path.dirname(sys.executable) not in places:
        yield "kernel", "limited", f"{', '.join(ours)}: not for {sys.executable}", advice
    else:
        yield "kernel", "ok", f"Jupyter knows {', '.join(ours)}"


# ---- memory


def _memory() -> _Found:
    from . import _store

    larger = "docker run --shm-size=8g, or as root: mount -o remount,size=8g /dev/shm"
    try:
        session = _store.Session.create("holdfast doctor")
    except (OSError, _store.Error) as error:
        yield "shared memory", "broken", str(error), f"{larger}; ulimit -v unlimited"
        return
    try:
        most, is_named = session.info()["capacity_bytes"], bool(session.name)
        huge, way = _store._means(session)
    finally:
        session.destroy()
        session.close()
    space = shutil.disk_usage("/dev/shm") if os.path.isdir("/dev/shm") else None
    total, free = (space.total, space.free) if space else (0, 0)
    text = f"/dev/shm has {size(total)}, {size(free)} free; a notebook may take {size(most)}"
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    if not is_named:
        text += " of memory without a name (memfd), which ends with its kernel"
        yield "shared memory", "limited", text, larger
    elif addresses != resource.RLIM_INFINITY:
        text += f": a process may map {size(addresses)}"
        yield "shared memory", "limited", text, "ulimit -v unlimited"
    elif free < total / 10:
        advice = "holdfast ls and df -h /dev/shm show what is there; holdfast gc makes room"
        yield "shared memory", "limited", text, advice
    else:
        yield "shared memory", "ok", text
    if huge:
        yield "huge pages", "ok", f"of {size(huge)}"
    else:
        text = "none in shared memory: to save a large variable first takes up to ten times as long"
        setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
        yield "huge pages", "limited", text, f"Linux 6.1; or as root: echo advise > {setting}"
    yield "written pages", *_WRITTEN_PAGES[way - 1]


def _sessions() -> _Found:
    from . import _store

    rows = _store.sessions()
    dead = [row["allocated_bytes"] for row in rows if row["owner_alive"] == 0]
    if dead:
        text = f"{count(len(dead), 'session')} of dead kernels with {size(sum(dead))}"
        advice = "holdfast gc removes them; with --kept those, too, that wait for their kernel"
        yield "sessions", "limited", text, advice
    else:
        yield "sessions", "ok", f"{len(rows)} in use, none left by dead kernels"


# ---- recording


def _recorder() -> _Found:
    from . import _recorder as recorder
    from .worker.event_cost import Counted, EventCost

    if recorder.is_open():
        yield "recorder", "ok", "it records this process, so its cost isn't measured"
        return
    cost = EventCost()
    cost.measure(recorder)
    event, line = (cost.of(one) * 1e9 for one in (Counted(flat=1), Counted(line_calls=1)))
    if not cost.known:
        yield "recorder", "broken", "it has lost events", _REPORT
        return
    yield "recorder", "ok", f"a recorded call takes {2 * event:.0f} ns more, {event:.0f} an event"
    scope = _read("/proc/sys/kernel/yama/ptrace_scope") or "0"
    others = f"; ptrace_scope is {scope}: gdb -p and py-spy need root" if scope != "0" else ""
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as place:
        try:
            recorder.lines_begin(os.path.join(place, "lines"), ())
        except (OSError, RuntimeError) as error:
            advice = "let the container's seccomp profile allow process_vm_readv"
            yield "time per line", "limited", f"{error}{others}", advice
        else:
            recorder.lines_end()
            text = f"by process_vm_readv: with --lines a call takes {line:.0f} ns more{others}"
            yield "time per line", "ok", text


def _scorep() -> _Found:
    from .scorep import loading

    program, is_chosen = loading.find_config(), loading.is_chosen()
    try:
        found = loading.find()
    except RuntimeError as error:
        absent = "limited" if program else "absent"
        advice = "HOLDFAST_RECORDER=builtin, the default without it, records" if program else ""
        yield "Score-P", "broken" if is_chosen else absent, str(error), advice
        return
    use = "it records" if is_chosen else "HOLDFAST_RECORDER leaves it out"
    yield "Score-P", "ok", f"{program}, with {len(found.libraries)} shared libraries: {use}"


def _otf2() -> _Found:
    readers = [one for one in ("otf2-print", "vampir") if shutil.which(one)]
    readers += ["Python's otf2"] if importlib.util.find_spec("otf2") else []
    text = "is written; beside Holdfast's views it is read by"
    if readers:
        yield "OTF2", "ok", f"{text} {', '.join(readers)}"
    else:
        yield "OTF2", "absent", f"{text} nothing on PATH", "apt-get install otf2-tools"


def _perf() -> _Found:
    level = _read("/proc/sys/kernel/perf_event_paranoid")
    text = (
        f"perf_event_paranoid is {level or 'not there'}; Score-P and perf use it, Holdfast doesn't"
    )
    if level and int(level) > 2:
        yield "perf events", "limited", text, "as root: sysctl kernel.perf_event_paranoid=2"
    else:
        yield "perf events", "ok" if level else "absent", text


def _read(path: str) -> str:
    """The word in a file; "" if it can't be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


# ---- clusters and GPUs


def _mpi() -> _Found:
    from .scorep import ranks

    found = [one for one in ("mpiexec", "mpirun", "srun") if shutil.which(one)]
    rank = ranks.find(os.environ)
    text = ", ".join(found) or "no mpiexec, mpirun or srun"
    text += f"; mpi4py {_version('mpi4py') or 'not installed'}"
    text += f"; rank {rank.number} of {rank.size}" if rank else ""
    yield "MPI", "ok" if found or rank else "absent", text


def _machine() -> _Found:
    from .monitor import child, source

    try:
        monitor = source.Monitor(child.Child())
        monitor.start(0.01)
    except (OSError, source.MonitorError) as error:
        yield "monitor", "broken", str(error), "install the package again"
        return
    found, deadline = monitor.resources(), time.monotonic() + _DRIVER_S
    while not (found["gpus"] or found["gpu_trouble"]) and time.monotonic() < deadline:
        time.sleep(0.01)
        found = monitor.resources()
    monitor.close()
    memory = f"{found['memory_limit']:.1f} GiB of memory ({found['memory_limit_source']})"
    yield "monitor", "ok", f"{found['cores']:g} of {found['machine_cores']} cores, {memory}"
    job, limit = found["slurm_job"], found["slurm_limit"]
    if job is None:
        found_it = shutil.which("sbatch")
        yield "Slurm", "ok" if found_it else "absent", f"no job; {found_it or 'no sbatch'}"
    elif limit is None:
        yield "Slurm", "limited", f"job {job}: its memory's limit can't be read", "sbatch --mem=..."
    else:
        yield "Slurm", "ok", f"job {job}: {limit:.1f} GiB ({found['slurm_limit_source']})"
    gpus = ", ".join(f"{gpu['name']} ({gpu['memory']:.0f} GiB)" for gpu in found["gpus"])
    if gpus:
        trouble = _cuda_trouble()
        text = f"{gpus}, by NVML; CUDA: {trouble or 'it works'}"
        yield "GPU", "limited" if trouble else "ok", text, "nvidia-smi says more" if trouble else ""
    else:
        trouble = found["gpu_trouble"] or "the NVIDIA driver takes too long"
        state = "absent" if trouble.startswith("no ") else "limited"
        yield "GPU", state, trouble, "nvidia-smi says more; in a container: docker run --gpus all"


def _cuda_trouble() -> str:
    try:
        status = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError as error:
        return str(error)
    return f"cuInit returns {status}" if status else ""


# ---- libraries


def _unusable(package: str) -> Iterator[_Finding]:
    """The declarations of an imported package that don't apply."""
    for name, why in sorted(libraries.unusable.items()):
        if name.startswith(f"{package}: "):
            advice = f"it stays in the notebook's process (--run=in-process has it); {_REPORT}"
            yield _Finding("libraries", "limited", f"{name}: {why}", advice)


def _of_notebook() -> Iterator[_Finding]:
    """The libraries that this process has imported."""
    packages = ["standard", *sorted(name for name in list(sys.modules) if libraries.has(name))]
    wrong = [one for package in packages for one in _unusable(package)]
    number = sum(len(libraries.load(package)) for package in packages)
    text = f"{number - len(wrong)} of {count(number, 'declaration')} apply: {', '.join(packages)}"
    yield from (*wrong, _Finding("libraries", "ok", text))


def _installed() -> list[str]:
    """The packages of which something is declared, found without an import."""
    from . import codecs

    names = (libraries.FILES - {"standard"}) | codecs.entry_points(codecs.OF_LIBRARIES).keys()
    return sorted(name for name in names if name.isidentifier() and importlib.util.find_spec(name))


def _import(package: str) -> Iterator[_Finding]:
    """Import it in this process, and try what is declared of it."""
    from .worker.settings.library_state import library_state

    try:
        importlib.import_module(package)
    except Exception as error:  # whatever a library does
        text = f"{package} can't be imported: {type(error).__name__}: {error}"
        yield _Finding("libraries", "limited", text, "nothing of it can cross")
        return
    library_state.begin(None)
    library_state.begin_notebook({})
    wrong = list(_unusable(package))
    number = len(libraries.load(package))
    text = f"{number - len(wrong)} of {count(number, 'declaration')} of {package} apply"
    yield from wrong or [_Finding("libraries", "ok", text)]


def _libraries() -> _Found:
    names = ", ".join(_installed()) or "none that has state of its own"
    yield "libraries", "ok", f"not tried: {names}", "holdfast doctor --import tries them"


# ---- the command


def _child(*arguments: str) -> list[_Finding]:
    """The findings of a process of its own. `-P`: a notebook's folder isn't searched for modules."""
    command = [sys.executable, "-P", "-m", "holdfast.doctor", "--json", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_CHILD_S, check=False
        )
        line = (done.stdout.splitlines() or [""])[-1]  # libraries print, too
        return [_Finding(**one) for one in json.loads(line)]
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    except (ValueError, TypeError):
        why = f"exit status {done.returncode}: {(done.stderr.splitlines() or [''])[-1]}"
    return [_Finding("doctor", "broken", f"{' '.join(command[3:])}: {why}", _REPORT)]


_PARTS: tuple[Callable[[], _Found], ...] = (
    *(_versions, _kernel, _memory, _sessions, _recorder, _scorep, _otf2, _perf, _mpi, _machine),
)


def _examine(parts: t.Iterable[Callable[[], _Found]]) -> Iterator[_Finding]:
    for part in parts:
        try:
            yield from (_Finding(*fields) for fields in part())
        except Exception as error:  # an extension module without its library, above all
            text = f"{type(error).__name__}: {error}"
            yield _Finding(part.__name__.strip("_"), "broken", text, _REPORT)


def _render(found: t.Iterable[_Finding]) -> str:
    lines = []
    for one in found:
        lines.append(f"{one.state:<8} {one.name:<14} {one.text}")
        lines += [f"{'':<23} -> {one.advice}"] if one.advice else []
    return "\n".join(lines)


def run(words: list[str]) -> str:
    """Do ``%holdfast doctor``.

    Parameters
    ----------
    words : list of str
        The words behind it: none.

    Returns
    -------
    str
        What works, also of the libraries that the notebook has imported.
    """
    if words:
        return "%holdfast doctor takes nothing behind it. In a shell: holdfast doctor --help"
    return _render([*_child("--notebook"), *_of_notebook()])


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : list of str, optional
        The arguments. If they are left out: those of the process.

    Returns
    -------
    int
        The exit status: 1 if something is broken.
    """
    parser = argparse.ArgumentParser(
        prog="holdfast doctor", description="Say what works here, and what to do about the rest."
    )
    parser.add_argument("--json", action="store_true", help="one line for programs")
    parser.add_argument("--short", action="store_true", help="only what is limited or broken")
    what = "import the installed libraries of which Holdfast knows state, and try what it knows"
    parser.add_argument("--import", dest="imports", action="store_true", help=what)
    parser.add_argument("--notebook", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--package", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.package:
        found = list(_import(options.package))
    else:
        is_plain = not options.notebook and not options.imports
        found = list(_examine([*_PARTS, *[_libraries] * is_plain]))
    if options.imports:
        found += [one for package in _installed() for one in _child("--package", package)]
    if options.json:
        print(json.dumps([one._asdict() for one in found]))
    elif options.short:
        short = [one._replace(advice="") for one in found if one.state in ("limited", "broken")]
        more = "says more" if short else "finds nothing that is limited"
        print(f"{_render(short)}\nholdfast doctor {more}".strip())
    else:
        print(_render(found))
    return int(any(one.state == "broken" for one in found))


if __name__ == "__main__":
    sys.exit(program.run("holdfast doctor", main))
