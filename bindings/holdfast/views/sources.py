"""Time beside the code: the user's own files, with the times of their functions and lines.

If lines were sampled (``--lines``), each line has its time. Otherwise the times come from the trace. The events of a
call don't say from which line it came. So the calls and the time of a function stand at the line of its definition.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

from holdfast.base.tabular import align, count, time
from holdfast.scorep import line_counts

if t.TYPE_CHECKING:
    from holdfast.pages.schema import Regions, Source, SourceFile, SourceFunction, Table

_CELL = re.compile(r"In\[(\d+)\]")
# The kernel makes comments of the commands above a cell's code (kernel/commands/cellhead.c).
_BLANKED = re.compile(r"\A(#[^\n]*\n|\s*\n)*# %%(execute_with_scorep|isolated)[^\n]*")
_FILES = 24  # the files with most time; the others aren't shown
_TEXT = 400_000  # characters of all their texts


class Where(t.NamedTuple):
    """The data by which the texts of a trace are found.

    Attributes
    ----------
    cells : mapping of int to str
        The text of the notebook's cells, by number.
    wall : float or None
        When the trace begins, in seconds since 1970: a file that was changed later isn't shown.
    """

    cells: t.Mapping[int, str]
    wall: float | None


def sampled(directory: Path, where: Where) -> Source | None:
    """Return what was sampled of each line.

    Parameters
    ----------
    directory : pathlib.Path
        The experiment's.
    where : Where
        What is known of the texts.

    Returns
    -------
    dict or None
        The part "source" of web/schema/views.json; None if lines weren't sampled.
    """
    total = line_counts.total(directory)
    if total is None:
        return None
    by_file: dict[str, list[line_counts.Code]] = {}
    for code in line_counts.codes(directory):
        by_file.setdefault(code.file, []).append(code)
    kept = _kept(directory)
    order = sorted(by_file.items(), key=lambda item: -sum(code.own_ns for code in item[1]))
    files = [_sampled_file(file, codes, kept, where) for file, codes in order]
    return {
        "kind": "sampled",
        "seconds": total.sampled_ns / 1e9,
        "notes": _sampled_notes(total, files),
        "files": _bounded(files),
    }


def _sampled_notes(total: line_counts.Total, files: list[SourceFile]) -> list[str]:
    rate = 1e9 / total.interval_ns if total.interval_ns else 0
    took = time(total.processor_ns / 1e6)
    said = f"{total.samples:,} samples of {time(total.sampled_ns / 1e6)}"
    notes = [f"{said}, {rate:,.0f} a second and thread at most; the sampler took {took}."]
    if total.processes > 1:
        notes.append(f"{total.processes} processes together.")
    unplaced = sum(one.get("unplaced", 0) for file in files for one in file["functions"])
    if unplaced:
        notes.append(
            f"{unplaced:,} samples have no line: their calls were shorter than a look takes."
        )
    if total.missed:
        notes.append(f"{total.missed:,} samples are missing: the thread was too quick.")
    if total.cut:
        notes.append(f"In {total.cut:,} samples only the innermost 512 functions count.")
    if total.dropped:
        notes.append(f"There was no room for {total.dropped:,} functions.")
    return notes


def _sampled_file(
    file: str, codes: list[line_counts.Code], kept: t.Mapping[str, str], where: Where
) -> SourceFile:
    numbers = sorted({number for code in codes for number in code.lines})
    made: SourceFile = {
        "name": _shown(file),
        "seconds": sum(code.own_ns for code in codes) / 1e9,
        "functions": [_sampled_function(code) for code in sorted(codes, key=_place)],
        "lines": {"line": numbers, "samples": [], "own": [], "inclusive": [], "share": []},
    }
    for number in numbers:
        there = [(code, code.lines[number]) for code in codes if number in code.lines]
        # A comprehension is a function on the line of its caller. That line's time includes it.
        code, line = max(there, key=lambda one: one[1].inclusive_ns)
        of_all = code.inclusive_ns
        made["lines"]["samples"].append(sum(one.samples for _, one in there))
        made["lines"]["own"].append(sum(one.own_ns for _, one in there) / 1e9)
        made["lines"]["inclusive"].append(line.inclusive_ns / 1e9)
        made["lines"]["share"].append(line.inclusive_ns / of_all if of_all else 0.0)
    text = kept.get(file)
    return _with_text(made, file, text if text is not None else _guess(file, where))


def _place(code: line_counts.Code) -> tuple[int, str]:
    return code.def_line, code.name


def _sampled_function(code: line_counts.Code) -> SourceFunction:
    made: SourceFunction = {
        "name": code.name,
        "line": code.def_line,
        "last": max(code.lines, default=code.def_line),
        "calls": code.calls if code.name != "<module>" else 0,  # in a cell each statement is one
        "own": code.own_ns / 1e9,
        "inclusive": code.inclusive_ns / 1e9,
    }
    if code.unplaced:
        made["unplaced"] = code.unplaced
    return made


def called(regions: Regions, table: Table, where: Where) -> Source | None:
    """Return what the calls of each function took, at the lines of their definitions.

    Parameters
    ----------
    regions : dict
        The regions of a trace.
    table : dict
        What they took.
    where : Where
        What is known of the texts.

    Returns
    -------
    dict or None
        The part "source" of web/schema/views.json; None if no function is the user's own.
    """
    from holdfast.scorep.lines import libraries

    roots = libraries()
    by_file: dict[str, list[SourceFunction]] = {}
    for at, region in enumerate(table["region"]):
        file, line = regions["file"][region], regions["line"][region]
        if not line or not _is_own(file, roots):
            continue
        one: SourceFunction = {
            "name": regions["name"][region].rpartition(":")[2],
            "line": line,
            "last": line,
            "calls": table["visits"][at],
            "own": table["exclusive"][at] / 1e9,
            "inclusive": table["inclusive"][at] / 1e9,
        }
        by_file.setdefault(file, []).append(one)
    files = [_called_file(file, functions, where) for file, functions in by_file.items()]
    files.sort(key=lambda file: -file["seconds"])
    if not files:
        return None
    return {
        "kind": "calls",
        "seconds": sum(file["seconds"] for file in files),
        "notes": [
            "Time and calls of functions, at their definitions: a trace doesn't know the lines inside. "
            "%%execute_with_scorep --lines samples them."
        ],
        "files": _bounded(files),
    }


def _is_own(file: str, roots: tuple[str, ...]) -> bool:
    if _CELL.fullmatch(file):
        return True
    return bool(file) and "<" not in file and not file.startswith(roots)


def _called_file(file: str, functions: list[SourceFunction], where: Where) -> SourceFile:
    defined = {one["line"] for one in functions if not _is_whole(one)}
    shown = [one for one in functions if one["line"] not in defined or not _is_whole(one)]
    made: SourceFile = {
        "name": file,
        "seconds": sum(one["own"] for one in functions),
        "functions": sorted(shown, key=lambda one: (one["line"], one["name"])),
    }
    match = _CELL.fullmatch(file)
    text = where.cells.get(int(match[1])) if match else _read(file, where.wall)
    return _with_text(made, file, text)


def _is_whole(function: SourceFunction) -> bool:
    """Whether it is a cell or a module. It stands at line 1, where a function may stand, too."""
    return function["name"] == "<module>" or function["name"].startswith("cell In[")


# ---- texts


def _shown(file: str) -> str:
    """The name of a file, as people know it."""
    from holdfast.scorep.lines import TIMED

    cell, tab, compiled = file.partition("\t")
    return f"{cell}, below %%time" if compiled == TIMED else cell if tab else file


def _with_text(made: SourceFile, file: str, text: str | None) -> SourceFile:
    match = _CELL.fullmatch(file.partition("\t")[0])
    if match:
        made["cell"] = int(match[1])
    if text is not None:
        made["text"] = (
            _BLANKED.sub(lambda found: found[0].replace("# %%", "%%"), text) if match else text
        )
    return made


def _kept(directory: Path) -> dict[str, str]:
    """The texts that were written with the counts. None of them if the process was killed."""
    from holdfast.scorep.lines import SOURCES

    try:
        return dict(json.loads((directory / SOURCES).read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def _guess(file: str, where: Where) -> str | None:
    """The text of a file, if the process was killed before it wrote the text."""
    from holdfast.scorep.lines import TIMED

    cell, tab, compiled = file.partition("\t")
    if not tab:
        return _read(file, where.wall)
    match = _CELL.fullmatch(cell)
    text = where.cells.get(int(match[1])) if match else None
    if text is None or compiled == TIMED:
        return None
    magics = [line.split()[0] for line in text.splitlines() if line.startswith("%%")]
    known = {"%%execute_with_scorep", "%%isolated"}
    return text if known.issuperset(magics) else None


def _read(file: str, before: float | None) -> str | None:
    from holdfast.scorep.lines import text_of_file

    return None if before is None else text_of_file(file, before)


def _bounded(files: list[SourceFile]) -> list[SourceFile]:
    """The files with most time, and their texts, as many as a page can hold."""
    room = _TEXT
    for file in files[:_FILES]:
        room -= len(file.get("text", ""))
        if room < 0:
            file.pop("text", None)
    return files[:_FILES]


# ---- as text


def text(title: str, source: Source) -> str:
    """Format the lines that took time.

    Parameters
    ----------
    title : str
        Whose they are.
    source : dict
        What `sampled` or `called` returned.

    Returns
    -------
    str
        A table for each file.
    """
    parts = [f"{title}: " + " ".join(source["notes"])]
    for file in source["files"]:
        rows = _rows(file)
        if len(rows) > 1:
            parts += ["", f"{file['name']}: {file['seconds']:.6f} s"]
            parts += align(rows, right=range(len(rows[0]) - 1))
    return "\n".join(parts)


_HEAD = {
    True: ("line", "calls", "samples", "total s", "own s", "% of function", ""),
    False: ("line", "calls", "total s", "own s", "s per call", ""),
}


def _rows(file: SourceFile) -> list[tuple[str, ...]]:
    """The lines of functions that ran, in their order."""
    texts = file.get("text", "").splitlines()
    calls: dict[int, int] = {}
    for one in file["functions"]:
        if one["calls"]:
            calls[one["line"]] = calls.get(one["line"], 0) + one["calls"]
    if "lines" not in file:
        return [_HEAD[False], *(_called_row(one, texts) for one in file["functions"])]
    unplaced = {
        one["line"]: f"  # {count(one['unplaced'], 'sample')} without a line"
        for one in file["functions"]
        if "unplaced" in one
    }
    columns = file["lines"]
    there = {line: at for at, line in enumerate(columns["line"])}
    ran = [one for one in file["functions"] if one["inclusive"] > 0]
    rows = [_HEAD[True]]
    for line in sorted({line for one in ran for line in range(one["line"], one["last"] + 1)}):
        at = there.get(line)
        code = (texts[line - 1] if line <= len(texts) else "") + unplaced.get(line, "")
        counts = f"{calls[line]:,}" if line in calls else ""
        if at is None or not columns["inclusive"][at]:
            rows.append((str(line), counts, "", "", "", "", code))
            continue
        times = f"{columns['inclusive'][at]:.6f}", f"{columns['own'][at]:.6f}"
        share = f"{100 * columns['share'][at]:.1f}"
        rows.append((str(line), counts, f"{columns['samples'][at]:,}", *times, share, code))
    return rows


def _called_row(one: SourceFunction, texts: list[str]) -> tuple[str, ...]:
    code = texts[one["line"] - 1].strip() if one["line"] <= len(texts) else one["name"]
    each = one["inclusive"] / one["calls"] if one["calls"] else 0.0
    times = f"{one['inclusive']:.6f}", f"{one['own']:.6f}", f"{each:.6f}"
    return (str(one["line"]), f"{one['calls']:,}", *times, code)
