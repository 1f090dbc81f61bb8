"""Makes large buffers ready before a cell that will use them.

Memory that a cell visibly writes in place (writes.py) is copied in bulk beforehand. For memory that it
visibly reads as a whole, the page tables are filled. So neither happens as page faults while the cell is
measured. A recorded cell's process does it after binding. The main worker does it before a cell, for what a
privatization has made private: the bulk copy costs a small part of the faults. It fills page tables before
recorded cells only.

If the code doesn't show the write, the faults are taken, once. The report says which names had most of their
memory copied, and when the same code runs again they are prepared.

A cell that touches little pays little. Without a megabyte of mapped memory its code isn't even parsed, and a
buffer that is hardly touched is left alone.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import typing as t

from holdfast import _store

from .analysis.spans import spans
from .analysis.writes import Uses

if t.TYPE_CHECKING:
    from .reports import Report

BYTES_MIN = _store._LARGE_BYTES  # less isn't worth a thought
PAGES_MIN = 1024  # copied one by one that are worth to be remembered
_CELLS_MAX = 64  # whose writes are remembered
_MAGICS = frozenset(("time", "timeit", "capture", "prun"))  # their cell is Python

Learnt = dict[str, list[str]]


def prepare(
    session: t.Any, shell: t.Any, code: str, learnt: Learnt, reading: bool = True
) -> tuple[Report, list[int]]:
    """Make ready what `code` will use.

    Parameters
    ----------
    session : holdfast._store.Session
    shell : IPython.core.interactiveshell.InteractiveShell
        Transforms the cell; its namespace is bound.
    code : str
        The cell as the user wrote it.
    learnt : dict of str to list of str
        By the code's key, names that it wrote without showing it.
    reading : bool
        Whether to fill page tables too.

    Returns
    -------
    dict
        `bytes_prepared` and `bytes_populated`, of whole buffers.
    list of int
        Where the buffers lie that were copied, for `undo`.
    """
    uses = find(shell, code)
    for name in learnt.get(key(code), ()):
        if name in shell.user_ns:
            uses.write_all(shell.user_ns[name])
    done: Report = {"bytes_prepared": 0, "bytes_populated": 0}
    copied = []
    for span in uses.written.values():
        if span.touched >= BYTES_MIN:
            size = _store._prepare(session, span.address, span.touched, True)
            done["bytes_prepared"] += size
            copied += [span.address] if size else []
    for span in uses.read.values() if reading else ():
        if span.touched >= BYTES_MIN and span.address not in uses.written:
            done["bytes_populated"] += _store._prepare(session, span.address, span.touched, False)
    return done, copied


def undo(session: t.Any, copied: list[int]) -> None:
    """After a cell: what it didn't write after all is no change.

    Not while another thread of the cell's may be writing: no page is replaced under it.
    """
    alone = len(sys._current_frames()) == 1
    for address in copied if alone else ():
        _store._reshare(session, address)


def find(shell: t.Any, code: str) -> Uses:
    """The visible uses of a cell's code, and of the cells that its magics run."""
    uses = Uses(shell.user_ns)
    try:
        with_magics = _needs_transform(code)
        tree = ast.parse(shell.transform_cell(code) if with_magics else code)
        uses.look_at(tree)
        for inner in _cells_of_magics(tree) if with_magics else ():
            uses.look_at(ast.parse(shell.transform_cell(inner)))
    except Exception:  # broken code is the shell's to report; a strange object costs faults only
        return Uses(shell.user_ns)
    return uses


def _needs_transform(code: str) -> bool:
    return any(mark in code for mark in "%!?") or code[:1].isspace()


def _cells_of_magics(tree: ast.Module) -> t.Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        words = [part.value for part in node.args if isinstance(part, ast.Constant)]
        if len(words) >= 2 and words[0] in _MAGICS and isinstance(words[-1], str):
            if node.func.attr == "run_cell_magic" or node.func.attr == "run_line_magic":
                yield words[-1]


def key(code: str) -> str:
    """The key of a cell's code."""
    return hashlib.blake2b(code.encode(errors="replace"), digest_size=8).hexdigest()


def wrote_unseen(
    session: t.Any, namespace: dict[str, t.Any], hidden: t.Container[str]
) -> list[str]:
    """Names most of whose memory was copied page by page.

    For a cell that has run, where the commit found many changed pages: it looks at every array.
    """
    found = []
    for name, value in list(namespace.items()):
        if name.startswith("_") or name in hidden:
            continue
        for address in {span.address for span in spans(value)}:
            copied, size = _store._copied(session, address)
            if copied >= BYTES_MIN and copied * 2 >= size:
                found.append(name)
                break
    return found


def remember(learnt: Learnt, mark: str, names: list[str]) -> Learnt:
    """`learnt` with what the cell of this key wrote, the latest last; a new one where it differs."""
    names = sorted({*names, *learnt.get(mark, ())})
    if not names or learnt.get(mark) == names:
        return learnt
    kept = {other: seen for other, seen in learnt.items() if other != mark}
    while len(kept) >= _CELLS_MAX:
        del kept[next(iter(kept))]
    return {**kept, mark: names}
