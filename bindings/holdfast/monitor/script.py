"""The code of cells as a Python script."""

from __future__ import annotations

import os
import typing as t

from . import files


def write(path: str, sources: t.Iterable[str]) -> None:
    """Write the cells' code, without what only a notebook understands."""
    path = os.path.expanduser(path)
    parts = [_plain(source) for source in sources]
    text = "#!/usr/bin/env python3\n\n" + "\n\n".join(part for part in parts if part) + "\n"
    with files.writing(path), open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _plain(source: str) -> str:
    """A cell without lines of magics and of the shell's, which stay as comments."""
    lines = [
        f"# {line}" if line.lstrip().startswith(("%", "!")) else line
        for line in source.splitlines()
    ]
    return "\n".join(lines).strip("\n")
