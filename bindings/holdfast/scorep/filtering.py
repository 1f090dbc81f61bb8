"""Score-P's filter files: which regions are left out of a recording.

::

    SCOREP_FILE_NAMES_BEGIN
      EXCLUDE */site-packages/*
    SCOREP_FILE_NAMES_END
    SCOREP_REGION_NAMES_BEGIN
      EXCLUDE *
      INCLUDE MANGLED __main__:* user:*
    SCOREP_REGION_NAMES_END

The words are those of the Score-P manual ("Filtering"). A word is followed by one or more patterns like those
of a shell. The last pattern that matches decides. ``#`` begins a comment. A backslash before a blank or ``#``
makes it an ordinary character. Python has no mangled names, so MANGLED and DEMANGLED have no effect.
"""

from __future__ import annotations

import os
import re

_BLOCKS = {"SCOREP_FILE_NAMES": True, "SCOREP_REGION_NAMES": False}
_COMMENT = re.compile(r"(?<!\\)#.*")
_BLANKS = re.compile(r"(?<!\\)\s+")

#: Whether it is in the block of file names, whether it excludes, and the pattern.
Rule = tuple[bool, bool, str]


class _Reader:
    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self._block = ""
        self._exclude: bool | None = None  # None: no rule has begun

    def take(self, word: str) -> bool:
        """Read a word. False if it isn't allowed at this place."""
        block, _, edge = word.rpartition("_")
        if block in _BLOCKS and edge in ("BEGIN", "END"):
            expected = "" if edge == "BEGIN" else block
            fits, self._block = self._block == expected, block if edge == "BEGIN" else ""
            self._exclude = None
            return fits
        if word in ("EXCLUDE", "INCLUDE"):
            self._exclude = word == "EXCLUDE"
            return bool(self._block)
        if self._exclude is None:
            return False
        if word in ("MANGLED", "DEMANGLED"):
            return not _BLOCKS[self._block]
        self.rules.append((_BLOCKS[self._block], self._exclude, word))
        return True


def read(path: str | os.PathLike[str]) -> list[Rule]:
    """Read the rules of a filter file.

    Parameters
    ----------
    path : str or os.PathLike
        The file, in the format of the Score-P manual ("Filtering").

    Returns
    -------
    list of Rule
        In the order of the file.

    Raises
    ------
    OSError
        The file can't be read.
    RuntimeError
        A word is in a place where it has no meaning.
    """
    reader = _Reader()
    with open(path, encoding="utf-8", errors="backslashreplace") as file:
        for number, line in enumerate(file, 1):
            for word in _BLANKS.split(_COMMENT.sub("", line).strip()):
                if word and not reader.take(word):
                    raise RuntimeError(f"{os.fspath(path)}, line {number}: unexpected {word!r}")
    return reader.rules
