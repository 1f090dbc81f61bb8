"""The monitor's files: columns as CSV or JSON, without pandas, and cells as a script. The suffix chooses the format.

A JSON file is a list of records, one for each row, as JUmPER writes it. When a file is read, a text that looks like a
number becomes one, and an empty text becomes None.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import typing as t

from .arguments import CommandError

Columns = dict[str, list[t.Any]]

_CELL_MOST = 1 << 30  # characters of one cell's source; the csv module's own limit is 128 KiB


@contextlib.contextmanager
def writing(path: str) -> t.Iterator[None]:
    """Turn an OSError of the block into one line for the user.

    Parameters
    ----------
    path : str
        The file that the block writes.

    Raises
    ------
    CommandError
        The file can't be written.
    """
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror}") from None


def write(path: str, columns: Columns) -> str:
    """Write columns to a file.

    Parameters
    ----------
    path : str
        The file; ".csv" is added if it has no suffix.
    columns : dict of str to list
        The columns, of equal length.

    Returns
    -------
    str
        The path that was written.

    Raises
    ------
    CommandError
        The suffix is neither ".csv" nor ".json", or the file can't be written.
    """
    path = os.path.expanduser(path)
    suffix = os.path.splitext(path)[1].lower()
    if not suffix:
        path, suffix = path + ".csv", ".csv"
    if suffix not in _WRITERS:
        raise CommandError(f"{path}: the file's name must end in .csv or .json")
    with writing(path), open(path, "w", encoding="utf-8", newline="") as file:
        file.write(_WRITERS[suffix](columns))
    return path


def read(path: str) -> Columns:
    """Read the columns of a file.

    Parameters
    ----------
    path : str
        The file, with the suffix ".csv" or ".json".

    Returns
    -------
    dict of str to list
        The columns.

    Raises
    ------
    CommandError
        The suffix is another one, or the file can't be read or has no table.
    """
    path = os.path.expanduser(path)
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _READERS:
        raise CommandError(f"{path}: the file's name must end in .csv or .json")
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return _READERS[suffix](file.read())
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, csv.Error) as error:  # also text that is no UTF-8
        raise CommandError(f"{path} isn't a {suffix[1:].upper()} table: {error}") from None


def write_script(path: str, sources: t.Iterable[str]) -> None:
    """Write cells as a Python script, without what only a notebook understands.

    Parameters
    ----------
    path : str
        The file.
    sources : iterable of str
        The code of the cells.

    Raises
    ------
    CommandError
        The file can't be written.
    """
    path = os.path.expanduser(path)
    parts = [_plain(source) for source in sources]
    text = "#!/usr/bin/env python3\n\n" + "\n\n".join(part for part in parts if part) + "\n"
    with writing(path), open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _plain(source: str) -> str:
    """A cell in which the lines of magics and of the shell are comments."""
    lines = [
        f"# {line}" if line.lstrip().startswith(("%", "!")) else line
        for line in source.splitlines()
    ]
    return "\n".join(lines).strip("\n")


def to_csv(columns: Columns) -> str:
    """Format columns as CSV.

    Parameters
    ----------
    columns : dict of str to list
        The columns, of equal length.

    Returns
    -------
    str
        The text, with a line of names.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def from_csv(text: str) -> Columns:
    """Read columns from CSV.

    Parameters
    ----------
    text : str
        The text, with a line of names.

    Returns
    -------
    dict of str to list
        The columns.

    Raises
    ------
    ValueError
        The text is empty, or its rows differ in length.
    csv.Error
        It isn't CSV.
    """
    limit = csv.field_size_limit(_CELL_MOST)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    finally:
        csv.field_size_limit(limit)
    if not rows:
        raise ValueError("it is empty")
    names = rows.pop(0)
    if any(len(row) != len(names) for row in rows):
        raise ValueError("its rows differ in length")
    return {name: [_value(row[at]) for row in rows] for at, name in enumerate(names)}


def _to_json(columns: Columns) -> str:
    rows = zip(*columns.values(), strict=True)
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2) + "\n"


def _from_json(text: str) -> Columns:
    rows = json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it isn't a list of records")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _value(text: str) -> t.Any:
    if not text:
        return None
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    return text


_WRITERS = {".csv": to_csv, ".json": _to_json}
_READERS = {".csv": from_csv, ".json": _from_json}
