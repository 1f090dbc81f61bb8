"""Notebooks as compact text: many in one file, or one in an .ipynb file.

    === name [word ...]
    # %%
    x = 1
    # %% plain
    print(x)
    # %% again

A cell begins at a line `# %%`; what stands between the name and the first cell is a comment.
`# %% plain` is a cell that is run as a plain one in every mode, `# %% again` is the cell before it once
more. The words after the name:

core=MODE  the tests' core runs the notebook in this mode (a long run: each notebook in each mode)
comms      compare the messages to widgets, too, without their data
loose      output of different kinds may come in any order (text written to descriptors)
addresses  hide addresses (0x7f...)
times      hide durations
numbers    hide every number of five or more digits: process ids, identities
ids        hide UUIDs, with or without hyphens
needs=M    skip the notebook where the module M isn't installed
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path

WORDS = {"comms", "loose", "addresses", "times", "numbers", "ids"}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell's code, and whether it is a plain one in every mode."""

    code: str
    plain: bool = False


@dataclasses.dataclass(frozen=True)
class Notebook:
    """A named notebook and the words after its name."""

    name: str
    cells: tuple[Cell, ...]
    words: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    core: str = ""
    folder: Path | None = None  # of an .ipynb file: its cells run beside it

    @property
    def missing(self) -> str | None:
        """A module that it needs and that isn't installed."""
        return next((name for name in self.needs if not importlib.util.find_spec(name)), None)


def _cell(mark: str, code: str, before: list[Cell]) -> Cell:
    """A cell by the word after its `# %%`."""
    if mark == "again" and before and not code.strip():
        return before[-1]
    if mark not in ("", "plain"):
        raise ValueError(f"a cell marked {mark!r}")
    return Cell(code.strip("\n"), mark == "plain")


def _notebook(text: str) -> Notebook:
    """A notebook, from its name to its last cell."""
    head, _, body = text.partition("\n")
    name, *words = head.split()
    valued = [word.partition("=")[::2] for word in words if "=" in word]
    plain_words = {word for word in words if "=" not in word}
    if unknown := plain_words - WORDS | {key for key, _ in valued} - {"core", "needs"}:
        raise ValueError(f"unknown words {sorted(unknown)}")
    needs = tuple(value for key, value in valued if key == "needs")
    cells: list[Cell] = []
    for piece in ("\n" + body).split("\n# %%")[1:]:
        mark, _, code = piece.partition("\n")
        cells.append(_cell(mark.strip(), code, cells))
    if not cells:
        raise ValueError("it has no cells")
    core = dict(valued).get("core", "")
    return Notebook(name, tuple(cells), frozenset(plain_words), needs, core=core)


def read_text(text: str, place: str = "") -> list[Notebook]:
    """The notebooks of a text in the compact format, in their order."""
    notebooks = []
    for part in ("\n" + text).split("\n=== ")[1:]:
        try:
            notebooks.append(_notebook(part))
        except ValueError as error:
            raise ValueError(f"{place}: {part.split(maxsplit=1)[0]}: {error}") from None
    return notebooks


def read_ipynb(path: Path) -> Notebook:
    """The code cells of an .ipynb file."""
    cells = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and source.strip():
            cells.append(Cell(source))
    words = frozenset({"addresses", "times"})
    return Notebook(path.stem, tuple(cells), words, folder=path.resolve().parent)


def read_folder(folder: Path) -> list[Notebook]:
    """The notebooks of every text file in a folder. Two of one name are an error."""
    found: dict[str, Notebook] = {}
    for path in sorted(folder.glob("*.txt")):
        for notebook in read_text(path.read_text(encoding="utf-8"), path.name):
            if notebook.name in found:
                raise ValueError(f"{path.name}: there are two notebooks {notebook.name}")
            found[notebook.name] = notebook
    return list(found.values())
