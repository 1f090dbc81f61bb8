"""Which lines take the time: the sampler of `_recorder`, and the sources beside its counts.

A file ``lines-HOST-PID.bin`` in the experiment's directory has the counts of one process. It is written while the
program runs, so it exists after a crash. At the end, ``sources.json`` gets the texts of the files that ran, as
they were then: a cell ends with its notebook, and a file may change.

A forked child that is recorded goes on with a file of its own. A spawned child isn't sampled.
"""

from __future__ import annotations

import ast
import functools
import json
import linecache
import os
import re
import site
import sys
import sysconfig
import time
import tokenize
import typing as t
from pathlib import Path

from holdfast import _recorder

from .messages import warn

SOURCES = "sources.json"
#: The file name with which %%time compiles.
TIMED = "<timed exec>"
_NAME = "lines-{}-{}.bin"  # the host, the process
_TIME_MAGIC = re.compile(
    r"run_cell_magic\('time', '[^']*', ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)"
)
_LARGEST = 2 << 20  # bytes of a file whose text is kept

_directory = ""  # the experiment's; "" while nothing is sampled
_began = 0.0


def libraries() -> tuple[str, ...]:
    """Return where code lies that isn't the user's own.

    Returns
    -------
    tuple of str
        The beginnings of the names of files: the standard library's, site-packages', and Holdfast's.
    """
    return _libraries(tuple(entry for entry in sys.path if isinstance(entry, str)))


@functools.lru_cache(maxsize=4)
def _libraries(search: tuple[str, ...]) -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots.update(site.getsitepackages(), [site.getusersitepackages()])
    roots.update(path for path in search if path.endswith(("site-packages", "dist-packages")))
    roots.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(
        sorted({name + os.sep for root in roots for name in (root, os.path.realpath(root))})
    )


def begin(directory: str) -> None:
    """Sample the lines of this process from now on.

    Parameters
    ----------
    directory : str
        The experiment's.

    Raises
    ------
    OSError
        The file can't be made, or the system doesn't allow it.
    RuntimeError
        Lines are sampled already.
    """
    global _directory, _began
    name = _NAME.format(os.uname().nodename, os.getpid())
    _recorder.lines_begin(os.path.join(directory, name), libraries())
    _directory, _began = directory, time.time()
    _watch_forks()


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_begin_in_child)


def _begin_in_child() -> None:
    """After `_recorder` in a forked child. A child that isn't recorded isn't sampled either."""
    global _directory
    directory, _directory = _directory, ""
    if not directory or not _recorder.is_open():
        return
    try:
        begin(directory)
    except (OSError, RuntimeError) as error:
        warn(f"lines of process {os.getpid()} aren't sampled: {error}")


def end() -> tuple[int, float]:
    """End what `begin` began, and write the sources; nothing happens if nothing is sampled.

    Returns
    -------
    calls : int
        The calls that were noticed, in all processes.
    seconds : float
        The processor time of the samplers themselves.

    Raises
    ------
    OSError
        The sources can't be written.
    """
    global _directory
    directory, _directory = _directory, ""
    _recorder.lines_end()
    return _write_sources(directory) if directory else (0, 0.0)


def _write_sources(directory: str) -> tuple[int, float]:
    from holdfast.scorep import line_counts

    codes, total = line_counts.codes(Path(directory)), line_counts.total(Path(directory))
    files = {code.file for code in codes}
    texts = {file: text for file in files if (text := _text(file, files)) is not None}
    part = os.path.join(directory, SOURCES + ".part")
    with open(part, "w", encoding="utf-8", errors="backslashreplace") as written:
        json.dump(texts, written)
    os.replace(part, os.path.join(directory, SOURCES))
    return sum(code.calls for code in codes), total.processor_ns / 1e9 if total else 0.0


def _text(file: str, files: t.Iterable[str]) -> str | None:
    """The text of a file, as it was compiled. A name with a tab is that of a cell."""
    cell, tab, compiled = file.partition("\t")
    if not tab:
        return text_of_file(file, _began)
    if compiled == TIMED:
        others = [one for one in files if one.startswith(cell + "\t") and one != file]
        return _timed_body([_compiled(one.partition("\t")[2]) for one in others])
    return _compiled(compiled) or None


def _compiled(name: str) -> str:
    """The source that IPython compiled under this name: a cell's code, with its magics as calls."""
    return "".join(linecache.getlines(name))


def _timed_body(texts: t.Iterable[str]) -> str | None:
    """The code that ``%%time`` ran in a cell. None if the whole cell isn't that magic."""
    found = [body for text in texts for body in _TIME_MAGIC.findall(text)]
    return str(ast.literal_eval(found[0])) if len(found) == 1 else None


def text_of_file(file: str, before: float) -> str | None:
    """Return the text of a file of Python.

    Parameters
    ----------
    file : str
        Its name.
    before : float
        A time, in seconds since 1970.

    Returns
    -------
    str or None
        None if it was changed after `before`, can't be read, or is too large.
    """
    try:
        status = os.stat(file)
        if status.st_mtime > before or status.st_size > _LARGEST:
            return None
        with tokenize.open(file) as source:
            return source.read()
    except (OSError, SyntaxError, ValueError):
        return None
