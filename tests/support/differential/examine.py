"""One notebook in ipykernel and in Holdfast's modes: what differs, and what of it nobody listed."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

from . import compare, kernels, known, modes
from .notebooks import Notebook


@dataclasses.dataclass
class Outcome:
    """In each mode the cells that differ, each with a diff; and the troubles, also ipykernel's."""

    notebook: Notebook
    differing: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)
    troubles: dict[str, str] = dataclasses.field(default_factory=dict)
    skipped: str = ""


def examine(
    notebook: Notebook,
    chosen: list[modes.Mode],
    entries: list[known.Known],
    reference: kernels.Reference,
    timeout: float = 60,
    twice: bool = False,
) -> Outcome:
    """Run a notebook in ipykernel (if `twice`, two times), and beside that in each mode."""
    outcome = Outcome(notebook)
    if notebook.missing:
        outcome.skipped = f"{notebook.missing} isn't installed"
        return outcome
    with ThreadPoolExecutor(1) as beside:
        theirs = beside.submit(kernels.run, notebook, None, reference, timeout)
        ours = {mode.name: kernels.run(notebook, mode, None, timeout) for mode in chosen}
        expected = theirs.result()
    if expected.trouble:
        outcome.troubles["ipykernel"] = expected.trouble
    if twice:
        again = kernels.run(notebook, None, reference, timeout)
        for cell, diff in compare.differing(notebook, expected, again).items():
            outcome.troubles["ipykernel"] = f"not the same twice, cell {cell}:\n{diff}"
    for mode, found in ours.items():
        outcome.differing[mode] = compare.differing(notebook, expected, found)
        if trouble := known.trouble(entries, notebook.name, mode, outcome.differing[mode]):
            outcome.troubles[mode] = trouble
    return outcome
