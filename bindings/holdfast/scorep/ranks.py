"""Lets the processes of an MPI program record into one experiment.

Each process finds its rank and the number of ranks in environment variables of the launcher. The lowest rank that
is recorded makes the experiment directory, as a single process does, and puts a file there that names the launch.
The others wait for that file. This is rank 0, unless another program runs as it: then a higher one has seen that
for a while. Nothing is sent by MPI, which needn't even be initialized.

At its end that rank waits until all recorded ranks have begun, since the last one to end removes the file. If MPI has
been initialized, they have: a rank reports its begin before its program runs. Otherwise it looks at the
processes of the launch.
"""

from __future__ import annotations

import os
import sys
import time
import typing as t

from holdfast import _recorder

from .messages import warn

_NAMES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    # Not SLURM_NTASKS: a batch script has it, too, although a process that it starts is alone.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
_LAUNCHES = ("SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_PATIENCE_S = 60.0
_LOOK_S = 0.1  # between two looks at other processes, which takes milliseconds
_LOOKS = 10  # at lower ranks: each runs another program, which isn't about to become ours

_makes = False  # this process has made the experiment


class Rank(t.NamedTuple):
    """One of several processes that an MPI launcher started.

    Attributes
    ----------
    number : int
        Its rank, from 0.
    size : int
        How many there are.
    launch : str
        What all of them and no others have in common.
    """

    number: int
    size: int
    launch: str

    @property
    def directory(self) -> str:
        """The experiment directory if the user has chosen none.

        Returns
        -------
        str
            A relative path.
        """
        return f"scorep-{self.launch}"


def _fields(pid: int) -> list[str]:
    """The fields of a process in /proc, from its state on. Empty if there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _ancestors() -> t.Iterator[int]:
    pid = os.getppid()
    while pid > 1:
        yield pid
        fields = _fields(pid)
        pid = int(fields[1]) if fields else 0


def _launcher() -> str:
    """The name of a launch, found from the parents of this process. With Hydra (MPICH, MVAPICH), a
    process on each machine starts the ranks, and all of these have the same address of mpiexec.
    Other launchers are our parent, on one machine: its number, with the time at which it was
    started."""
    for pid in _ancestors():
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
        except OSError:
            break
        if "--control-port" in words[:-1]:
            return words[words.index("--control-port") + 1].replace(":", "-")
    fields = _fields(os.getppid())
    return f"{os.getppid()}-{fields[19] if fields else ''}"


def find(environ: t.Mapping[str, str]) -> Rank | None:
    """Find this process's rank.

    Parameters
    ----------
    environ : mapping of str to str
        The environment.

    Returns
    -------
    Rank or None
        None if the process is alone.
    """
    for rank, size in _NAMES:
        if environ.get(rank, "").isdecimal() and environ.get(size, "").isdecimal():
            break
    else:
        return None
    words = [environ[name] for name in _LAUNCHES if environ.get(name)]
    launch = "-".join(dict.fromkeys(words)) or _launcher()
    found = Rank(int(environ[rank]), int(environ[size]), launch.replace("/", "_"))
    return found if found.size > 1 else None


def announce(directory: str, rank: Rank) -> None:
    """Say that this process records, so that the others may join, or rank 0 may end.

    Parameters
    ----------
    directory : str
        The experiment directory.
    rank : Rank
        This process.

    Raises
    ------
    OSError
        The directory can't be written.
    """
    _recorder.share()
    path = os.path.join(directory, "parts", f"rank-{rank.number}")
    with open(path + ".new", "w") as file:
        file.write(rank.launch)
    os.replace(path + ".new", path)


def _is_there(directory: str, number: int, launch: str) -> bool:
    try:
        with open(os.path.join(directory, "parts", f"rank-{number}")) as file:
            return file.read() == launch
    except OSError:
        return False


def open_together(rank: Rank, open_one: t.Callable[..., str]) -> str:
    """Open the recording of this rank.

    Parameters
    ----------
    rank : Rank
        This process.
    open_one : callable
        Called as ``open_one(directory, joins=..., rank=...)``; it returns the experiment directory.

    Returns
    -------
    str
        The experiment directory, the same for all ranks.

    Raises
    ------
    RuntimeError
        No lower rank has made an experiment within a minute.
    OSError
        `open_one` can't open it.
    """
    global _makes
    directory = os.path.abspath(environ_directory() or rank.directory)
    _makes = _is_to_make(directory, rank)
    experiment = open_one(directory, joins=not _makes, rank=rank.number)
    announce(experiment, rank)
    return experiment


def _is_to_make(directory: str, rank: Rank) -> bool:
    """Wait until a lower rank has made the experiment, or it is known that none will."""
    begin = time.monotonic()
    lower, looks, said = range(rank.number), 0, False
    look = begin + 5 * _LOOK_S  # as a rule it is there before
    while True:
        if any(_is_there(directory, n, rank.launch) for n in range(rank.size) if n != rank.number):
            return False
        if not lower or looks >= _LOOKS:
            return True
        now = time.monotonic()
        if now > begin + _PATIENCE_S:
            raise RuntimeError(f"rank 0 has made no experiment in {directory}")
        if now > begin + 2 and not said:
            warn("waits for the experiment, which rank 0 makes, or the lowest that is recorded")
            said = True
        if now > look and _is_on_one_machine(rank):
            looks, look = looks + 1 if _run_others(lower) else 0, now + _LOOK_S
        time.sleep(0.005)


def has_made() -> bool:
    """Tell whether this process has made the experiment that the ranks share.

    Returns
    -------
    bool
        False in the other ranks.
    """
    return _makes


def wait_for_others(directory: str, rank: Rank) -> None:
    """Wait, as the rank that made the experiment, until all ranks that record have begun.

    If one is waited for that may be on another machine, a message says so.

    Parameters
    ----------
    directory : str
        The experiment directory.
    rank : Rank
        This process.
    """
    end = time.monotonic() + _PATIENCE_S
    said = False
    while not _has_met_others() and time.monotonic() < end:
        missing = [
            number for number in range(rank.size) if not _is_there(directory, number, rank.launch)
        ]
        if not missing or (_is_on_one_machine(rank) and not _may_begin(missing)):
            return
        if not said and time.monotonic() > end - _PATIENCE_S + 1:
            warn(f"waits for ranks that may be recorded and haven't begun: {missing}"[:200])
            said = True
        time.sleep(0.05)


def _has_met_others() -> bool:
    """Whether MPI has been initialized, so that the ranks have met."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized()


def _is_on_one_machine(rank: Rank) -> bool:
    return any(os.environ.get(name) == str(rank.size) for name in _LOCAL_SIZES)


def _may_begin(numbers: t.Iterable[int]) -> bool:
    """Whether a process of these ranks is about to record: it says so, or it is a shell that runs a
    script."""
    return any(may_record for _, _, may_record in _processes(numbers))


def _run_others(numbers: t.Collection[int]) -> bool:
    """Whether the launcher has started a program for each of these ranks, and none is about to
    record. A process of another launch has none of our ancestors as its parent."""
    found = list(_processes(numbers))
    starters = {*_ancestors()}
    started = {number for number, parent, _ in found if parent in starters}
    return started.issuperset(numbers) and not any(may_record for _, _, may_record in found)


def _processes(numbers: t.Iterable[int]) -> t.Iterator[tuple[int, int, bool]]:
    """The processes of these ranks: each one's rank and parent, and whether it may be about to record."""
    wanted = {f"{name}={number}".encode(): number for number in numbers for name, _ in _NAMES}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                named = wanted.keys() & set(file.read().split(b"\0"))
            if not named:
                continue
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            is_shell = os.path.basename(os.readlink(f"/proc/{pid}/exe")).endswith("sh")
        except OSError:
            continue
        fields = _fields(int(pid))
        may_record = is_shell or (b"holdfast.scorep" in words and b"--mp" in words)
        yield wanted[named.pop()], int(fields[1]) if fields else 0, may_record


def environ_directory() -> str:
    """Return the experiment directory that the user chose.

    Returns
    -------
    str
        The variable ``SCOREP_EXPERIMENT_DIRECTORY``, or "".
    """
    return os.environ.get("SCOREP_EXPERIMENT_DIRECTORY", "")
