"""Columns in files: CSV and JSON by suffix, written and read without pandas.

A JSON file is a list of records, one a row, as JUmPER writes it. What is read is taken as it is:
numbers where a text is one, None where there is nothing.
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
    """What fails to write this file within is told in one line."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror}") from None


def write(path: str, columns: Columns) -> str:
    """Write a file; its path, which has a suffix now."""
    path = os.path.expanduser(path)
    suffix = os.path.splitext(path)[1].lower()
    if not suffix:
        path, suffix = path + ".csv", ".csv"
    if suffix not in _WRITERS:
        raise CommandError(f"{path}: the suffix has to be .csv or .json")
    with writing(path), open(path, "w", encoding="utf-8", newline="") as file:
        file.write(_WRITERS[suffix](columns))
    return path


def read(path: str) -> Columns:
    """The columns of a file."""
    path = os.path.expanduser(path)
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _READERS:
        raise CommandError(f"{path}: the suffix has to be .csv or .json")
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return _READERS[suffix](file.read())
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, csv.Error) as error:  # also text that is no UTF-8
        raise CommandError(f"{path} is no {suffix[1:].upper()} table: {error}") from None


def to_csv(columns: Columns) -> str:
    """The text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def from_csv(text: str) -> Columns:
    """The columns of such a text."""
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
        raise ValueError("it is no list of records")
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
