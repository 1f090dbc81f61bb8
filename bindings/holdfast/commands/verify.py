"""Verify mode: encodes all that a commit would skip, and reports what had changed nevertheless.

A commit skips variables that no code can have reached since the last one (worker/analysis/touched.py), and pages that
the system reports as not written. `%holdfast verify on`, or HOLDFAST_VERIFY=1 in the kernel's environment, makes each
commit encode all variables and compare all bytes. A difference is saved, so that no result is wrong. It is a defect
of Holdfast, and is reported as an error with the variable and the cells that ran. The cost grows with the notebook's
data.

Both ways set the environment variable, which each process of the notebook inherits.
"""

from __future__ import annotations

import os
import typing as t

from holdfast.base import sentences

if t.TYPE_CHECKING:
    from holdfast._store import _Saved

VARIABLE = "HOLDFAST_VERIFY"
_LINES_MAX = 40  # of the cells' code


def is_on() -> bool:
    """Say whether commits of this process verify.

    Returns
    -------
    bool
        Whether they do.
    """
    return os.environ.get(VARIABLE, "") not in ("", "0", "off")


def switch(words: list[str]) -> str:
    """Do %holdfast verify [on|off].

    Parameters
    ----------
    words : list of str
        The words behind the command; empty to ask only.

    Returns
    -------
    str
        The text that the command shows.
    """
    if words in (["on"], ["off"]):
        os.environ[VARIABLE] = words[0]
    elif words:
        return f"%holdfast verify {' '.join(words)}: it is on or off"
    return "Each commit is verified." if is_on() else "Commits are not verified."


def report(saved: _Saved, cells: t.Iterable[str]) -> None:
    """Print the changes that a save overlooked.

    Parameters
    ----------
    saved : dict
        The report of Names.save().
    cells : iterable of str
        The code of the cells that ran before it.
    """
    wrong = []
    if saved["overlooked"]:
        names = ", ".join(saved["overlooked"])
        wrong.append(f"{names} changed, but the analysis found no code that can have changed it")
    if saved["pages_overlooked"]:
        pages = saved["pages_overlooked"]
        wrong.append(f"{pages} pages of mapped values changed, though the system reports no write")
    if not wrong:
        return
    code = "\n".join(cells).splitlines()
    code = code[:_LINES_MAX] + ["..."] * (len(code) > _LINES_MAX)
    sentences.say(
        f"VERIFY FAILED: {'; '.join(wrong)}. The change was saved now; without verify mode it"
        " would be missing in recorded cells and after a crash. Please report it with these cells,"
        " which ran since the last commit:\n" + "\n".join(f"    {line}" for line in code)
    )
