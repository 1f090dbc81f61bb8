"""A session as one archive: samples of each level, cells, resources, and a manifest.

The names and the tables are those that JUmPER's `%export_session` writes, so JUmPER's archives and directories can be
read, too. Nothing is unpacked to the disk: the members that the manifest names are read into memory. Each must be
complete and have the length that the manifest says. An archive with a member whose path leads outside is refused.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import time
import typing as t
import zipfile
import zlib

from . import files, history, perfdata
from .arguments import CommandError
from .sampled import LEVELS, Cell, Figures, Gpu, Resources, Samples, State, of_rows

_VERSION = "1.0"
_MANIFEST = "manifest.json"
_CELLS = "cell_history.csv"
_MEMBER_MOST = 1 << 30  # bytes of a member, unpacked
_GPUS_MOST = 64
_APPS = ("Holdfast", "JUmPER")


class MonitorFacts(t.TypedDict, total=False):
    """The monitor's part of JUmPER's own manifest. Memory is in GB."""

    interval: float
    wallclock_start_time: float | None
    num_cpus: float
    num_gpus: int
    gpu_name: str
    gpu_memory: float
    memory_limits: dict[str, float]


class Manifest(t.TypedDict, total=False):
    """``manifest.json``: JUmPER's keys, and from `state` on our own."""

    version: str
    app: dict[str, str]
    monitor: MonitorFacts
    levels: list[str]
    schemas: dict[str, t.Any]
    time_origin: str
    state: State
    resources: Resources
    summaries: dict[str, dict[str, dict[str, Figures]]]  # by level, cell and metric
    rows: dict[str, int]


def write(path: str | None, record: t.Any, version: str) -> str:
    """Write the archive of a record.

    Parameters
    ----------
    path : str or None
        The file; ".zip" is added if it is missing. None for a name made of the time.
    record : Monitor or Imported
        What was sampled.
    version : str
        The version of the program that writes it.

    Returns
    -------
    str
        The path of the file.

    Raises
    ------
    CommandError
        The file can't be written.
    """
    path = os.path.expanduser(path or time.strftime("holdfast-session-%Y%m%d-%H%M%S.zip"))
    if not path.lower().endswith(".zip"):
        path += ".zip"
    cells = [cell for cell in record.cells() if cell.end_ns is not None]
    state = record.state()
    tables = {_CELLS: history.table(cells)}
    for level in state["levels"]:
        samples = record.samples(level)
        if len(samples.time):
            table = perfdata.table(samples, cells)
            table["width"] = [width / 1e9 for width in samples.width]
            tables[f"perf_{level}.csv"] = table
    manifest: Manifest = {
        "version": _VERSION,
        "app": {"name": "Holdfast", "version": version},
        "monitor": _monitor(state, record.resources()),
        "state": state,
        "resources": record.resources(),
        # The figures of cells are exact. Those that are computed from rows aren't.
        "summaries": {
            level: {str(cell.index): record.summary(level, *_ends(cell)) for cell in cells}
            for level in state["levels"]
        },
        "levels": list(state["levels"]),
        "schemas": {
            "perf": {name[5:-4]: list(table) for name, table in tables.items() if name != _CELLS},
            "cell_history": list(tables[_CELLS]),
        },
        "rows": {name: len(next(iter(table.values()))) for name, table in tables.items()},
        "time_origin": "monotonic",
    }
    with files.writing(path), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest, indent=2))
        for name, table in tables.items():
            archive.writestr(name, files.to_csv(table))
    return path


def _ends(cell: Cell) -> tuple[int, int]:
    assert cell.end_ns is not None
    return cell.begin_ns, cell.end_ns


def _monitor(state: State, resources: Resources) -> MonitorFacts:
    """The monitor's part of JUmPER's own manifest."""
    gpus = resources.get("gpus") or []
    return {
        "interval": state.get("interval"),
        "wallclock_start_time": state.get("wall_begin"),
        "num_cpus": resources.get("cores"),
        "num_gpus": len(gpus),
        "gpu_name": gpus[0]["name"] if gpus else "",
        "gpu_memory": gpus[0]["memory"] if gpus else 0,
        "memory_limits": resources.get("memory_limits") or {},
    }


def read(path: str) -> Imported:
    """Read an archive, or a directory of JUmPER's.

    Parameters
    ----------
    path : str
        The file or directory. ".zip" may be left out.

    Returns
    -------
    Imported
        The session.

    Raises
    ------
    CommandError
        It can't be read, isn't an archive of a session, or is of a newer version.
    """
    path = os.path.expanduser(path)
    if not os.path.exists(path) and os.path.exists(path + ".zip"):
        path += ".zip"
    try:
        members = _members(path)
        manifest = json.loads(members(_MANIFEST))
        _check_manifest(manifest, path)
        rows = manifest.get("rows") or {}
        known = {_CELLS: None, **{f"perf_{level}.csv": None for level in LEVELS}}
        named = rows or known
        tables = {}
        for name, count in named.items():
            if name not in known:
                raise ValueError(f"its manifest names an unknown member, {name!r}")
            data = members(name, optional=not rows)
            if data is not None:
                tables[name] = files.from_csv(data)
                if count not in (None, len(next(iter(tables[name].values())))):
                    raise ValueError(f"{name} is not as long as the manifest says")
        return _assemble(path, manifest, tables)
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise CommandError(f"{path} is a broken archive: {error}") from None
    except (ValueError, ArithmeticError, TypeError, LookupError, AttributeError) as error:
        raise CommandError(f"{path} isn't an archive of a session: {_words(error)}") from None


def _words(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _members(path: str) -> t.Callable[..., str | None]:
    """A function that returns the text of a member."""
    if os.path.isdir(path):
        return lambda name, optional=False: _from_directory(path, name, optional)
    with open(path, "rb") as file:
        data = file.read()
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise ValueError("it isn't a zip file")
    archive = zipfile.ZipFile(io.BytesIO(data))
    for info in archive.infolist():
        parts = info.filename.replace("\\", "/").split("/")
        if ".." in parts or info.filename.startswith(("/", "\\")) or ":" in parts[0]:
            raise ValueError(f"its member {info.filename!r} has a path outside of the archive")
        if info.file_size > _MEMBER_MOST:
            raise ValueError(f"its member {info.filename!r} is too large")
    return lambda name, optional=False: _from_zip(archive, name, optional)


def _from_zip(archive: zipfile.ZipFile, name: str, optional: bool) -> str | None:
    if name not in archive.namelist():
        if optional:
            return None
        raise ValueError(f"it has no {name}")
    return archive.read(name).decode("utf-8")


def _from_directory(path: str, name: str, optional: bool) -> str | None:
    try:
        with open(os.path.join(path, name), encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        if optional:
            return None
        raise ValueError(f"it has no {name}") from None


def _check_manifest(manifest: t.Any, path: str) -> None:
    app = manifest["app"]["name"]
    if app not in _APPS:
        raise ValueError(f"it was written by {app!r}")
    version = str(manifest["version"])
    if version.partition(".")[0] != _VERSION.partition(".")[0]:
        raise CommandError(
            f"{path} has format {version}, which this version of Holdfast is too old to read"
        )


def _assemble(path: str, manifest: Manifest, tables: dict[str, files.Columns]) -> Imported:
    cells = []
    if _CELLS in tables:
        history.check(tables[_CELLS], _CELLS)
        cells = history.cells(tables[_CELLS])
    levels = {
        name[5:-4]: perfdata.samples(table)
        for name, table in tables.items()
        if name.startswith("perf_") and name[5:-4] in LEVELS
    }
    monitor = manifest.get("monitor") or {}
    saved = manifest.get("state") or {}
    state: State = {"interval": monitor.get("interval"), **saved, "running": False}
    state["levels"] = list(levels)
    resources = manifest.get("resources") or _resources(monitor)
    return Imported(path, cells, levels, state, resources, _summaries(manifest, cells))


def _resources(monitor: MonitorFacts) -> Resources:
    """Resources from a manifest of JUmPER's."""
    limits = monitor.get("memory_limits") or {}
    gpu: Gpu = {
        "name": str(monitor.get("gpu_name")),
        "memory": float(monitor.get("gpu_memory") or 0),
    }
    return {
        "cores": monitor.get("num_cpus"),
        "memory_limit": limits.get("process"),
        "memory_limits": limits,
        "slurm_limit": limits.get("slurm"),
        "gpus": [gpu] * min(int(monitor.get("num_gpus") or 0), _GPUS_MOST),
    }


def _summaries(manifest: Manifest, cells: list[Cell]) -> dict[t.Any, dict[str, Figures]]:
    """The figures of cells by level and ends."""
    ends = {str(cell.index): _ends(cell) for cell in cells}
    return {
        (level, *ends[index]): {
            name: (_number(a), _number(b), _number(c), _number(d))
            for name, (a, b, c, d) in figures.items()
        }
        for level, by_cell in (manifest.get("summaries") or {}).items()
        for index, figures in by_cell.items()
        if index in ends
    }


def _number(value: t.Any) -> float | None:
    return None if value is None else float(value)


class Imported:
    """An imported session. It answers as the live monitor does (`source.Monitor`).

    Parameters
    ----------
    path : str
        Where it was read.
    cells : list of Cell
        Its cells.
    levels : dict of str to Samples
        Its samples, by level.
    state : State
        How the sampling went.
    resources : Resources
        What the machine had.
    summaries : dict, optional
        The figures of cells, by level, begin and end.

    Attributes
    ----------
    path : str
        Where it was read.
    """

    def __init__(
        self,
        path: str,
        cells: list[Cell],
        levels: dict[str, Samples],
        state: State,
        resources: Resources,
        summaries: dict[t.Any, dict[str, Figures]] | None = None,
    ):
        self.path = path
        self._cells, self._levels = cells, levels
        self._state, self._resources = state, resources
        self._summaries = summaries or {}

    def cells(self) -> list[Cell]:
        """Return the cells that had ended.

        Returns
        -------
        list of Cell
            The oldest first.
        """
        return self._cells

    def state(self) -> State:
        """Return how the sampling went when the session was exported.

        Returns
        -------
        State
            As `Monitor.state`; what the archive doesn't say is missing.
        """
        return self._state

    def resources(self) -> Resources:
        """Return what the machine had on which the session ran.

        Returns
        -------
        Resources
            As `Monitor.resources`; what the archive doesn't say is missing.
        """
        return self._resources

    def samples(
        self, level: str, begin_ns: int | None = None, end_ns: int | None = None
    ) -> Samples:
        """Return the samples of a level in a stretch of time.

        Parameters
        ----------
        level : str
            The level.
        begin_ns, end_ns : int, optional
            The rows that end after `begin_ns` and begin before `end_ns`, in nanoseconds of the monotonic
            clock. If they are left out: all.

        Returns
        -------
        Samples
            The rows; none if the archive doesn't have the level.
        """
        whole = self._levels.get(level) or perfdata.made([], [], {})
        chosen = [
            at
            for at, (time, width) in enumerate(zip(whole.time, whole.width, strict=True))
            if (begin_ns is None or time > begin_ns) and (end_ns is None or time - width < end_ns)
        ]
        columns = {name: [values[at] for at in chosen] for name, values in whole.columns.items()}
        times, widths = ([column[at] for at in chosen] for column in (whole.time, whole.width))
        return dataclasses.replace(perfdata.made(times, widths, columns), level=level)

    def summary(self, level: str, begin_ns: int, end_ns: int) -> dict[str, Figures]:
        """Return the figures of each metric in a stretch of time.

        For a cell they are those that the monitor computed when the session was exported; otherwise they
        come from the rows.

        Parameters
        ----------
        level : str
            The level.
        begin_ns, end_ns : int
            The stretch, in nanoseconds of the monotonic clock.

        Returns
        -------
        dict of str to tuple
            As `Monitor.summary`.
        """
        known = self._summaries.get((level, begin_ns, end_ns))
        if known is not None:
            return known
        samples = self.samples(level, begin_ns, end_ns)
        found = {name: of_rows(samples, name, begin_ns, end_ns) for name in samples.columns}
        return {name: figures for name, figures in found.items() if figures is not None}
