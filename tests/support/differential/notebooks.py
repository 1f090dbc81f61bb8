"""Notebooks as compact text: many in one file, or one in an .ipynb file.

    === name [word ...]
    # %%
    x = 1
    # %% plain
    print(x)

A cell begins at a line `# %%`; what stands between the name and the first cell is a comment.
`# %% plain` is a cell that is run as a plain one in every mode. The words after the name:

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

WORDS = {"loose", "addresses", "times", "numbers", "ids"}


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
    folder: Path | None = None  # of an .ipynb file: its cells run beside it

    @property
    def missing(self) -> str | None:
        """A module that it needs and that isn't installed."""
        return next((name for name in self.needs if not importlib.util.find_spec(name)), None)


def read_text(text: str, place: str = "") -> list[Notebook]:
    """The notebooks of a text in the compact format, in their order."""
    notebooks = []
    for part in ("\n" + text).split("\n=== ")[1:]:
        head, _, body = part.partition("\n")
        name, *words = head.split()
        needs = tuple(word[6:] for word in words if word.startswith("needs="))
        plain_words = {word for word in words if not word.startswith("needs=")}
        if unknown := plain_words - WORDS:
            raise ValueError(f"{place}: {name}: unknown words {sorted(unknown)}")
        cells = []
        for piece in ("\n" + body).split("\n# %%")[1:]:
            mark, _, code = piece.partition("\n")
            if mark.strip() not in ("", "plain"):
                raise ValueError(f"{place}: {name}: a cell marked {mark.strip()!r}")
            cells.append(Cell(code.strip("\n"), mark.strip() == "plain"))
        if not cells:
            raise ValueError(f"{place}: {name} has no cells")
        notebooks.append(Notebook(name, tuple(cells), frozenset(plain_words), needs))
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
