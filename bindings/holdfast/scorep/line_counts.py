"""The counts of sampled lines, as recorder/line_sampler.h writes them.

Each process has a file of its own. If the process was killed, the file may end in the middle of a record. Then
all whole records are read. A function that was compiled several times (a nested one, a cell that runs again)
counts as one.
"""

from __future__ import annotations

import dataclasses
import struct
import typing as t
from pathlib import Path

#: Of files in an experiment's directory.
PATTERN = "lines-*.bin"
_HEADER = struct.Struct("=8sII10Q")
_RECORD = struct.Struct("=6I8Q")
_LINE = struct.Struct("=6Q")
_MAGIC = b"HFLINES\0"
_VERSION = 1


@dataclasses.dataclass
class Line:
    """The samples at a line of a function.

    Attributes
    ----------
    samples, own_ns : int
        Of the line itself, with what it calls of libraries.
    inclusive_samples, inclusive_ns : int
        With the user's own functions that it calls.
    """

    samples: int = 0
    inclusive_samples: int = 0
    own_ns: int = 0
    inclusive_ns: int = 0


@dataclasses.dataclass
class Code:
    """The samples in a function.

    Attributes
    ----------
    file : str
        The file; of a cell its name, a tab, and the name of what was compiled.
    name : str
        The qualified name.
    def_line : int
        Where it is defined.
    calls : int
        Entries: all of them, since they are counted.
    samples, own_ns : int
        Of the function itself.
    inclusive_samples, inclusive_ns : int
        With what it calls; a recursion counts once.
    unplaced, unplaced_ns : int
        The part of `samples` and `own_ns` for which no line is known.
    lines : dict of int to Line
        All lines that have code.
    """

    file: str
    name: str
    def_line: int
    calls: int = 0
    samples: int = 0
    inclusive_samples: int = 0
    own_ns: int = 0
    inclusive_ns: int = 0
    unplaced: int = 0
    unplaced_ns: int = 0
    lines: dict[int, Line] = dataclasses.field(default_factory=dict)

    def add(self, other: Code) -> None:
        """Add what another process, or another compilation, has of the same function.

        Parameters
        ----------
        other : Code
            The other one.
        """
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for number, line in other.lines.items():
            mine = self.lines.setdefault(number, Line())
            for field in dataclasses.fields(Line):
                setattr(mine, field.name, getattr(mine, field.name) + getattr(line, field.name))


_COUNTS = [field.name for field in dataclasses.fields(Code) if field.type == "int"][1:]


@dataclasses.dataclass
class Total:
    """The figures of the samplers of all processes.

    Attributes
    ----------
    processes : int
        How many there were.
    rounds : int
        Looks at all threads of a process.
    samples, sampled_ns : int
        Of threads that ran a function of the user's own.
    missed, cut, dropped : int
        Threads that were too quick to say where they are; stacks that were too deep to be read to their
        outermost function; functions for which there was no room.
    processor_ns : int
        The processor time of the samplers themselves.
    interval_ns : int
        The time between two looks, on average.
    """

    processes: int = 0
    rounds: int = 0
    samples: int = 0
    sampled_ns: int = 0
    missed: int = 0
    cut: int = 0
    dropped: int = 0
    processor_ns: int = 0
    interval_ns: int = 0


def _files(directory: Path) -> t.Iterator[tuple[bytes, tuple[int, ...]]]:
    """For each file: its content, and the numbers of its header, from the size of the header on."""
    for path in sorted(directory.glob(PATTERN)):
        data = path.read_bytes()
        if len(data) < _HEADER.size:
            continue
        magic, version, *numbers = _HEADER.unpack_from(data)
        if magic == _MAGIC and version == _VERSION:
            yield data, tuple(numbers)


def total(directory: Path) -> Total | None:
    """Sum up what was sampled in an experiment.

    Parameters
    ----------
    directory : pathlib.Path
        The experiment's.

    Returns
    -------
    Total or None
        None if lines weren't sampled.
    """
    found = Total()
    for _, numbers in _files(directory):
        _, _, found.interval_ns, _, rounds, samples, sampled, missed, cut, dropped, own = numbers
        found.processes += 1
        found.rounds += rounds
        found.samples += samples
        found.sampled_ns += sampled
        found.missed += missed
        found.cut += cut
        found.dropped += dropped
        found.processor_ns += own
    return found if found.processes else None


def codes(directory: Path) -> list[Code]:
    """Read what was sampled in an experiment.

    Parameters
    ----------
    directory : pathlib.Path
        The experiment's.

    Returns
    -------
    list of Code
        The functions, in no order.
    """
    found: dict[tuple[str, str, int], Code] = {}
    for data, numbers in _files(directory):
        at, end = numbers[0], min(numbers[3], len(data))
        while at + _RECORD.size <= end:
            size, _, count, _, *texts = _RECORD.unpack_from(data, at)[:6]
            if size < _RECORD.size + count * _LINE.size + sum(texts) or at + size > end:
                break
            code = _read(data, at)
            key = code.file, code.name, code.def_line if code.name != "<module>" else 0
            if key in found:
                found[key].add(code)
            else:
                found[key] = code
            at += size
    return list(found.values())


def _read(data: bytes, at: int) -> Code:
    _, first, count, def_line, file_size, name_size, *counts = _RECORD.unpack_from(data, at)
    calls, samples, inclusive, own_ns, inclusive_ns, unplaced, unplaced_ns, _ = counts
    lines_at = at + _RECORD.size
    text = lines_at + count * _LINE.size
    name_at = text + file_size
    code = Code(
        data[text:name_at].decode("utf-8", "replace"),
        data[name_at : name_at + name_size].decode("utf-8", "replace"),
        def_line,
        calls,
        samples,
        inclusive,
        own_ns,
        inclusive_ns,
        unplaced,
        unplaced_ns,
    )
    for number in range(count):
        *sampled, _, has_code = _LINE.unpack_from(data, lines_at + number * _LINE.size)
        if has_code:
            code.lines[first + number] = Line(*sampled)
    return code
