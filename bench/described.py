"""What it costs at a save to say where the columns of a table are, for programs without Python.

    python bench/described.py [--works A,B] [--repeat N] [--quick] [--json F]

A session in this process commits tables of 1,000 columns, as the kernel does after a cell that has made
them. Commits with the description (docs/formats.md, "Tables") and without it take turns, each of another
table of the same kind.

Columns: the processor time of the commit without and with the description, in ms (medians); the ratio of the
two; the processor time of a commit that finds the table unchanged, without and with; the bytes that the
description adds to the session; and, for comparison, the processor time in which the table's library exports
the whole table by Arrow's interface, without a copy.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402


def _columns(count: int, rows: int, seed: int, texts: bool) -> dict[str, Any]:
    """Numbers; and every other column of texts."""
    import numpy as np

    numbers = np.random.default_rng(seed).random(rows)
    words = [f"row {i % 97} of {seed}" for i in range(rows)]
    return {f"c{i}": words if texts and i % 2 else numbers + i for i in range(count)}


def _numbers_of_pandas(count: int, rows: int, seed: int) -> Any:
    import pandas as pd

    return pd.DataFrame(_columns(count, rows, seed, False)).copy()


def _half_of_pandas(count: int, rows: int, seed: int) -> Any:
    import pandas as pd

    return pd.DataFrame(_columns(count, rows, seed, True)).copy()


def _polars(count: int, rows: int, seed: int) -> Any:
    import polars as pl

    return pl.DataFrame(_columns(count, rows, seed, True))


def _arrow(count: int, rows: int, seed: int) -> Any:
    import pyarrow as pa

    return pa.table(_columns(count, rows, seed, True))


def _chunks(count: int, rows: int, seed: int) -> Any:
    import pyarrow as pa

    return pa.concat_tables([_arrow(count, rows // 4, seed + i) for i in range(4)])


WORKS: dict[str, Callable[[int, int, int], Any]] = {
    "pandas numbers": _numbers_of_pandas,
    "pandas half text": _half_of_pandas,
    "Polars half text": _polars,
    "Arrow half text": _arrow,
    "Arrow half text in 4 chunks": _chunks,
}


def _processor_ms(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def _allocated(table: Any) -> int:
    """The bytes of a session with one table."""
    from holdfast import store

    with store.Session.create("bench/described") as session:
        session["x"] = table
        session.commit()
        size = session.info()["allocated_bytes"]
        session.destroy()
    return size


def compute(
    work: tuple[str, Callable[[int, int, int], Any]], args: argparse.Namespace
) -> dict[str, Any]:
    from holdfast import codecs, store

    name, make = work
    size = (50, 40) if args.quick else (1000, 1000)
    describe = codecs.table_of
    times: dict[bool, list[float]] = {False: [], True: []}
    again: dict[bool, list[float]] = {False: [], True: []}
    sizes = []
    try:
        with store.Session.create("bench/described") as session:
            for round in range(args.repeat + 1):
                for is_described in (False, True):
                    codecs.table_of = describe if is_described else lambda value: None
                    session["x"] = table = make(*size, 2 * round + is_described)
                    took = _processor_ms(session.commit)
                    if round:  # the first one loads what the libraries need
                        times[is_described].append(took)
                        again[is_described].append(_processor_ms(session.commit))
                    else:
                        sizes.append(_allocated(table))
            exports = [_processor_ms(table.__arrow_c_stream__) for _ in range(args.repeat)]
            session.destroy()
    finally:
        codecs.table_of = describe
    return {
        "work": name,
        "without_ms": statistics.median(times[False]),
        "with_ms": statistics.median(times[True]),
        "unchanged_without_ms": statistics.median(again[False]),
        "unchanged_with_ms": statistics.median(again[True]),
        "larger_bytes": sizes[1] - sizes[0],
        "export_ms": statistics.median(exports),
    }


def show(results: list[dict]) -> str:
    head = [
        "table",
        *("without", "with", "ratio", "unchanged, without", "unchanged, with"),
        *("larger by", "Arrow's export"),
    ]
    return measure.table(
        head,
        [
            [
                one["work"],
                f"{one['without_ms']:.1f}",
                f"{one['with_ms']:.1f}",
                f"{one['with_ms'] / one['without_ms']:.2f}",
                f"{one['unchanged_without_ms']:.1f}",
                f"{one['unchanged_with_ms']:.1f}",
                f"{one['larger_bytes']:,}",
                f"{one['export_ms']:.3f}",
            ]
            for one in results
        ],
    )


if __name__ == "__main__":
    measure.run_rows(
        measure.row_options(__doc__.partition("\n")[0], "work", 15),
        {name: (name, make) for name, make in WORKS.items()},
        compute,
        show,
        ("numpy", "pandas", "polars", "pyarrow"),
    )
