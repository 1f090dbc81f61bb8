"""The command ``holdfast doctor``: what works here, what doesn't, and what to do about it.

Each part is tried by the code that uses it: no version number is believed. A finding has one of four states: "ok";
"absent", a part that Holdfast does without; "limited", something works less well than it could; "broken", something
that should work doesn't. What is broken makes the exit status 1.

``%holdfast doctor`` runs the same in a process of its own, so that the notebook's process stays as it is, and adds the
libraries that the notebook has imported. In a shell ``--import`` imports what is installed, each in its own process.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import importlib
import importlib.util
import json
import os
import platform
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import typing as t
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from . import libraries
from .tabular import count, size

__all__ = ["Finding", "examine", "main", "render", "run"]

_SHOWN = ("ipython", "ipykernel", "jupyter_client", "jupyter_core", "jupyterlab", "notebook")
_PATIENCE_S = 5.0  # for the GPUs' driver
_IMPORT_S = 300
_PERF_CALL = {"x86_64": 298, "aarch64": 241}  # perf_event_open
_USER_ONLY = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv


class Finding(t.NamedTuple):
    """What is known of one part.

    Attributes
    ----------
    name : str
        The part.
    state : {"ok", "absent", "limited", "broken"}
        How it is.
    text : str
        What was found.
    advice : str, optional
        What to do about it.
    """

    name: str
    state: str
    text: str
    advice: str = ""


# ---- what is installed


def _versions() -> Iterator[Finding]:
    from packaging.requirements import Requirement

    own = metadata.metadata("holdfast")
    found = {name: version for name in _SHOWN if (version := _version(name))}
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    text = f"Holdfast {own['Version']}, Python {platform.python_version()}, {text}"
    needs = [Requirement(line) for line in metadata.requires("holdfast") or ()]
    wrong = [
        f"{need} (here: {_version(need.name) or 'none'})"
        for need in needs
        if (need.marker is None or need.marker.evaluate({"extra": ""}))
        and not need.specifier.contains(_version(need.name) or "0", prereleases=True)
    ]
    tested = f"Programming Language :: Python :: {sys.version_info[0]}.{sys.version_info[1]}"
    if wrong:
        yield Finding("versions", "broken", text, f"Holdfast needs {'; '.join(wrong)}")
    elif tested not in (own.get_all("Classifier") or ()):
        yield Finding("versions", "limited", text, "Holdfast isn't tested with this Python")
    else:
        yield Finding("versions", "ok", text)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _kernel() -> Iterator[Finding]:
    from jupyter_client.kernelspec import KernelSpecManager

    from . import first_run, install

    try:
        missing = first_run.find_missing(install.kernel_program())
    except install.InstallError as error:
        missing = str(error)
    if missing:
        what, _, advice = missing.partition("\n")
        yield Finding("kernel", "broken", what, advice or "install the package again")
    specs = KernelSpecManager().find_kernel_specs().items()
    ours = {name: Path(place) for name, place in specs if install.is_ours(Path(place))}
    pythons = set()
    for name, directory in sorted(ours.items()):
        command = json.loads((directory / "kernel.json").read_text("utf-8"))["argv"]
        programs = [command[0], command[command.index("--python") + 1]]
        pythons.add(programs[1])
        gone = [program for program in programs if not os.access(program, os.X_OK)]
        if gone:
            yield Finding(
                "kernel",
                "broken",
                f"{name}, in {directory}, names {' and '.join(gone)}: not there",
                "install it again: python -m holdfast.install --help",
            )
    advice = "python -m holdfast.install --sys-prefix"
    if not ours:
        yield Finding("kernel", "absent", "Jupyter knows no kernel of Holdfast's", advice)
    elif sys.executable not in pythons:
        text = f"{', '.join(sorted(ours))}: for another Python than this, {sys.executable}"
        yield Finding("kernel", "limited", text, advice)
    else:
        yield Finding("kernel", "ok", f"Jupyter knows it: {', '.join(sorted(ours))}")


# ---- memory


def _memory() -> Iterator[Finding]:
    from . import _store

    advice = "docker run --shm-size=8g, or as root: mount -o remount,size=8g /dev/shm"
    try:
        session = _store.Session.create("holdfast doctor")
    except (OSError, _store.Error) as error:
        yield Finding("shared memory", "broken", str(error), f"{advice}; ulimit -v unlimited")
        return
    try:
        most, is_named = session.info()["capacity_bytes"], bool(session.name)
        huge, way = _store._means(session)
    finally:
        session.destroy()
        session.close()
    space = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    total, free = (n * space.f_frsize for n in (space.f_blocks, space.f_bavail)) if space else (0, 0)
    text = f"/dev/shm has {size(total)}, {size(free)} free; a notebook may take {size(most)}"
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    if not is_named:
        text += ". That is too small, so it lies in a memfd, and ends with the kernel"
        yield Finding("shared memory", "limited", text, advice)
    elif addresses != resource.RLIM_INFINITY:
        text += f", as a process may map {size(addresses)}"
        yield Finding("shared memory", "limited", text, "ulimit -v unlimited")
    elif free < total / 10:
        advice = "holdfast ls and df -h /dev/shm show what is there, holdfast gc makes room"
        yield Finding("shared memory", "limited", text, advice)
    else:
        yield Finding("shared memory", "ok", text)
    if huge:
        yield Finding("huge pages", "ok", f"of {size(huge)}")
    else:
        text = "none in shared memory: to save a large variable first takes up to ten times as long"
        setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
        advice = f"Linux 6.1 or later gives them; before, as root: echo advise > {setting}"
        yield Finding("huge pages", "limited", text, advice)
    yield (
        Finding("written pages", "ok", "found by PAGEMAP_SCAN"),
        Finding(
            "written pages",
            "limited",
            "found by a look at each page in /proc/self/pagemap",
            "Linux 6.7 or later has PAGEMAP_SCAN, which is faster",
        ),
        Finding(
            "written pages",
            "limited",
            "found by comparing bytes, since /proc/self/pagemap can't be used",
            "let the container read /proc/self/pagemap",
        ),
    )[way - 1]


def _sessions() -> Iterator[Finding]:
    from . import _store

    rows = _store.sessions()
    dead = [row for row in rows if row["owner_alive"] == 0]
    if dead:
        held = size(sum(row["allocated_bytes"] for row in dead))
        text = f"{count(len(dead), 'session')} of dead kernels, with {held}"
        advice = "holdfast gc removes them; with --kept those, too, that wait for their kernel"
        yield Finding("sessions", "limited", text, advice)
    else:
        yield Finding("sessions", "ok", f"{len(rows)} in use, and none left behind")


# ---- recording


def _recorder() -> Iterator[Finding]:
    from . import _recorder
    from .worker.event_cost import Counted, EventCost

    if _recorder.is_open():
        yield Finding("recorder", "ok", "it records this process, so its cost isn't measured")
        return
    cost = EventCost()
    cost.measure(_recorder)
    if not cost.known:
        yield Finding("recorder", "broken", "it has lost events", "please report this")
        return
    event, line = (cost.of(one) * 1e9 for one in (Counted(flat=1), Counted(line_calls=1)))
    text = f"built in: a call takes {2 * event:.0f} ns more ({event:.0f} for each of its two events)"
    yield Finding("recorder", "ok", text)
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            scope = int(file.read())
    except OSError:
        scope = 0
    others = f"; ptrace_scope is {scope}: py-spy and gdb -p need root" if scope else ""
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as place:
        try:
            _recorder.lines_begin(os.path.join(place, "lines"), ())
        except (OSError, RuntimeError) as error:
            advice = "let the container's seccomp profile allow process_vm_readv"
            yield Finding("time per line", "limited", f"{error}{others}", advice)
        else:
            _recorder.lines_end()
            text = f"--lines works, by process_vm_readv: {line:.0f} ns more a call{others}"
            yield Finding("time per line", "ok", text)


def _scorep() -> Iterator[Finding]:
    from .scorep import loading

    program = loading.find_config()
    if program is None:
        state = "broken" if loading.is_chosen() else "absent"
        advice = "to record with it, put its scorep-config on PATH"
        yield Finding("Score-P", state, "no scorep-config on PATH", advice)
        return
    try:
        adapters = len(loading.find().adapters)
    except RuntimeError as error:
        state = "broken" if loading.is_chosen() else "limited"
        advice = "HOLDFAST_RECORDER=builtin records without it"
        yield Finding("Score-P", state, str(error), advice)
        return
    use = "it records" if loading.is_chosen() else "HOLDFAST_RECORDER=builtin leaves it out"
    libraries_of = f"with shared libraries, {count(adapters, 'adapter')}"
    yield Finding("Score-P", "ok", f"{program}, {libraries_of}: {use}")


def _otf2() -> Iterator[Finding]:
    readers = [one for one in ("otf2-print", "vampir") if shutil.which(one)]
    readers += ["Python's otf2"] if importlib.util.find_spec("otf2") else []
    text = "traces are written; beside Holdfast's views they are read by "
    if readers:
        yield Finding("OTF2", "ok", text + ", ".join(readers))
    else:
        advice = "apt-get install otf2-tools, or Vampir"
        yield Finding("OTF2", "absent", text + "nothing that is on PATH", advice)


def _perf() -> Iterator[Finding]:
    number = _PERF_CALL.get(platform.machine())
    try:
        with open("/proc/sys/kernel/perf_event_paranoid") as file:
            level = file.read().strip()
    except OSError:
        level = "unknown"
    if number is None or level == "unknown":
        yield Finding("perf events", "absent", "this system has none that are known")
        return
    what = struct.pack("=IIQ24xQ", 0, 64, 0, _USER_ONLY) + bytes(16)  # the processor's cycles
    call = ctypes.CDLL(None, use_errno=True).syscall
    fd = call(ctypes.c_long(number), what, 0, -1, ctypes.c_int(-1), ctypes.c_ulong(8))
    if fd >= 0:
        os.close(fd)
        yield Finding("perf events", "ok", f"the processor's counters can be read ({level})")
        return
    why = os.strerror(ctypes.get_errno())
    text = f"the processor's counters can't be read: {why} (perf_event_paranoid is {level})"
    text += ". Only Score-P's SCOREP_METRIC_PERF and perf need them"
    if ctypes.get_errno() in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        yield Finding("perf events", "absent", text, "a virtual machine seldom has them")
    else:
        advice = "as root: sysctl kernel.perf_event_paranoid=2; a container needs CAP_PERFMON, too"
        yield Finding("perf events", "limited", text, advice)


# ---- clusters and GPUs


def _mpi() -> Iterator[Finding]:
    from .scorep import ranks

    found = [one for one in ("mpiexec", "mpirun", "srun") if shutil.which(one)]
    python = f"mpi4py {version}" if (version := _version("mpi4py")) else "no mpi4py"
    rank = ranks.find(os.environ)
    here = f"; this is rank {rank.number} of {rank.size}" if rank else ""
    if found or rank:
        yield Finding("MPI", "ok", f"{', '.join(found) or 'no launcher'}; {python}{here}")
    else:
        yield Finding("MPI", "absent", f"no mpiexec, mpirun or srun on PATH; {python}")


def _machine() -> Iterator[Finding]:
    from .monitor import child, source

    try:
        monitor = source.Monitor(child.Child())
        monitor.start(0.01)
    except (OSError, source.MonitorError) as error:
        yield Finding("monitor", "broken", str(error), "install the package again")
        return
    deadline = time.monotonic() + _PATIENCE_S
    found = monitor.resources()
    while not (found["gpus"] or found["gpu_trouble"]) and time.monotonic() < deadline:
        time.sleep(0.01)
        found = monitor.resources()
    monitor.close()
    text = f"{found['cores']:g} of {found['machine_cores']} cores,"
    text += f" {found['memory_limit']:.1f} GiB of memory ({found['memory_limit_source']})"
    yield Finding("monitor", "ok", text)
    yield _slurm(found)
    yield _gpu(found)


def _slurm(found: t.Mapping[str, t.Any]) -> Finding:
    if found["slurm_job"] is None:
        if shutil.which("sbatch"):
            return Finding("Slurm", "ok", "it is here; this is no job of it")
        return Finding("Slurm", "absent", "neither a job nor sbatch on PATH")
    if found["slurm_limit"] is None:
        text = f"job {found['slurm_job']}, without a limit of memory that can be read"
        return Finding("Slurm", "limited", text, "submit it with --mem, if the job is killed")
    text = f"job {found['slurm_job']}: {found['slurm_limit']:.1f} GiB"
    return Finding("Slurm", "ok", f"{text} ({found['slurm_limit_source']})")


def _gpu(found: t.Mapping[str, t.Any]) -> Finding:
    gpus = [f"{gpu['name']} ({gpu['memory']:.0f} GiB)" for gpu in found["gpus"]]
    if not gpus:
        trouble = found["gpu_trouble"] or "the NVIDIA driver doesn't answer"
        state = "absent" if trouble.startswith("no ") else "limited"
        return Finding("GPU", state, trouble, "nvidia-smi says more; docker run --gpus all")
    try:
        status = ctypes.CDLL("libcuda.so.1").cuInit(0)
        trouble = f"cuInit returns {status}" if status else ""
    except OSError as error:
        trouble = str(error)
    if trouble:
        text = f"{', '.join(gpus)}: watched by NVML, but CUDA doesn't work: {trouble}"
        return Finding("GPU", "limited", text, "nvidia-smi says more")
    return Finding("GPU", "ok", f"{', '.join(gpus)}: NVML and CUDA work")


# ---- libraries


def _declared(package: str) -> list[Finding]:
    """The declarations of an imported package that don't apply."""
    advice = "its state stays in the notebook's process: --run=in-process has it. Please report it"
    return [
        Finding("libraries", "limited", f"{name}: {why}", advice)
        for name, why in sorted(libraries.unusable.items())
        if name.startswith(f"{package}: ")
    ]


def _of_process() -> list[Finding]:
    """The libraries that this process has imported."""
    packages = sorted(name for name in list(sys.modules) if libraries.has(name))
    found = [one for package in ("standard", *packages) for one in _declared(package)]
    number = sum(len(libraries.load(package)) for package in ("standard", *packages))
    text = f"{number - len(found)} of {count(number, 'declaration')} apply to what is imported"
    return [*found, Finding("libraries", "ok", f"{text}: {', '.join(packages) or 'nothing'}")]


def _installed() -> list[str]:
    """The packages of which something is declared; none is imported."""
    from . import codecs

    names = libraries.FILES - {"standard"} | codecs.entry_points(codecs.OF_LIBRARIES).keys()
    return sorted(name for name in names if importlib.util.find_spec(name) is not None)


def _imported(package: str) -> list[Finding]:
    """Import it here, and try what is declared of it."""
    from .worker.settings.library_state import library_state

    try:
        importlib.import_module(package)
    except Exception as error:  # whatever a library does
        text = f"{package} can't be imported: {type(error).__name__}: {error}"
        return [Finding("libraries", "limited", text, "nothing of it can cross")]
    library_state.begin(None)
    library_state.begin_notebook({})
    text = f"{package} {_version(package)}: {count(len(libraries.load(package)), 'declaration')}"
    return _declared(package) or [Finding("libraries", "ok", f"{text}, all apply")]


def _import_each() -> Iterator[Finding]:
    for package in _installed():
        yield from _child(["--package", package], _IMPORT_S)


def _libraries() -> Iterator[Finding]:
    text = f"{', '.join(_installed()) or 'none'} have state that crosses; none was tried"
    yield Finding("libraries", "ok", text, "holdfast doctor --import tries them")


def _child(arguments: list[str], patience_s: float) -> list[Finding]:
    """The findings of this command in a process of its own; `-P`: modules beside a notebook don't come first."""
    command = [sys.executable, "-P", "-m", "holdfast.doctor", "--json", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s)
        line = done.stdout.rpartition("\n[")[2].strip()  # below what a library prints
        return [Finding(**one) for one in json.loads(line if line[0] == "[" else f"[{line}")]
    except (OSError, subprocess.TimeoutExpired, LookupError, ValueError) as error:
        text = f"{' '.join(command[3:])}: {error}"
        return [Finding("doctor", "broken", text, "please report this")]


# ---- the command

_PARTS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _versions,
    _kernel,
    _memory,
    _sessions,
    _recorder,
    _scorep,
    _otf2,
    _perf,
    _mpi,
    _machine,
)


def examine(*more: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Try each part.

    Parameters
    ----------
    *more : callable
        Parts that are tried behind the others.

    Returns
    -------
    list of Finding
        In the order of the parts. One that fails to be tried is broken.
    """
    found: list[Finding] = []
    for part in (*_PARTS, *more):
        try:
            found.extend(part())
        except Exception as error:  # an extension module without its library, above all
            text = f"{type(error).__name__}: {error}"
            found.append(Finding(part.__name__.strip("_"), "broken", text, "please report this"))
    return found


def render(found: t.Iterable[Finding]) -> str:
    """Write findings for people.

    Parameters
    ----------
    found : iterable of Finding
        The findings.

    Returns
    -------
    str
        A line for each, and one below it with what to do, if it isn't ok.
    """
    lines = []
    for one in found:
        lines.append(f"{one.state:<8} {one.name:<14} {one.text}")
        if one.advice:
            lines.append(f"{'':<23} -> {one.advice}")
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
        The findings, also of the libraries that the notebook has imported.
    """
    if words:
        return "%holdfast doctor takes nothing behind it; holdfast doctor --help lists what it can."
    return render([*_child(["--notebook"], _IMPORT_S), *_of_process()])


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
        prog="holdfast doctor",
        description="Say what works here, and what to do about what doesn't.",
    )
    parser.add_argument("--json", action="store_true", help="on one line, for programs")
    parser.add_argument(
        "--import",
        dest="imports",
        action="store_true",
        help="import each installed library of which something is declared, and try that",
    )
    parser.add_argument("--short", action="store_true", help="only what is limited or broken")
    parser.add_argument("--notebook", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--package", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.package:
        found = _imported(options.package)
    else:
        more = _import_each if options.imports else _libraries
        found = examine(*() if options.notebook else (more,))
    if options.json:
        print(json.dumps([one._asdict() for one in found]))
    elif options.short:
        short = [one._replace(advice="") for one in found if one.state in ("limited", "broken")]
        print(f"{render(short)}\nholdfast doctor says more." if short else "holdfast doctor: all is well")
    else:
        print(render(found))
    return int(any(one.state == "broken" for one in found))


if __name__ == "__main__":
    sys.exit(main())
