"""How Holdfast runs the cells of a notebook: a table, and a way to add to it.

A mode's heads are put before the cells in turn: one head for every cell, two for every other one.
`mixed` and `shuffled` take for each cell any head, by a hash of the notebook's name and the cell's number.
"""

from __future__ import annotations

import dataclasses
import zlib

# The first line of a cell, in ipykernel too, so that the lines of tracebacks have the same numbers.
PLAIN = "# plain\n"
RECORD = "%%execute_with_scorep\n"
UNRECORDED = "%%isolated --run=in-process\n"
FORK = "%%execute_with_scorep --run=forked\n"
CLEAN = "%%execute_with_scorep --run=isolated\n"


@dataclasses.dataclass(frozen=True)
class Mode:
    """What is put before each cell, and the kernel's environment."""

    name: str
    heads: tuple[str, ...]
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    at_random: bool = False

    def head(self, notebook: str, number: int) -> str:
        """What is put before cell `number` (from 1) of this notebook."""
        if self.at_random:
            return self.heads[zlib.crc32(f"{notebook}:{number}".encode()) % len(self.heads)]
        return self.heads[(number - 1) % len(self.heads)]


MODES = {
    mode.name: mode
    for mode in (
        Mode("plain", (PLAIN,)),
        Mode("recorded", (RECORD,)),
        Mode("unrecorded", (UNRECORDED,)),
        Mode("forked", (RECORD,), {"HOLDFAST_RUN": "forked"}),
        Mode("clean", (RECORD,), {"HOLDFAST_RUN": "isolated"}),
        Mode("verified", (PLAIN, RECORD), {"HOLDFAST_RUN": "isolated", "HOLDFAST_VERIFY": "1"}),
        Mode("turns", (CLEAN, PLAIN, FORK)),
        Mode("alternating", (PLAIN, UNRECORDED)),
        Mode("reversed", (UNRECORDED, PLAIN)),
        Mode("mixed", (PLAIN, RECORD, UNRECORDED), at_random=True),
        Mode("shuffled", (PLAIN, RECORD, UNRECORDED, CLEAN), {"HOLDFAST_VERIFY": "1"}, True),
    )
}


def parse(text: str) -> Mode:
    """A mode from NAME=HEAD[;HEAD...][;VARIABLE=VALUE...], as the option --mode takes it.

    A head is the first line of a cell, such as `%%isolated --run=isolated`; `plain` is a comment.
    """
    name, _, rest = text.partition("=")
    heads, environment = [], {}
    for part in rest.split(";"):
        if part == "plain":
            heads.append(PLAIN)
        elif part.startswith("%%"):
            heads.append(part + "\n")
        elif "=" in part:
            variable, _, value = part.partition("=")
            environment[variable] = value
        else:
            raise ValueError(f"{part!r} is neither `plain`, nor %%something, nor VARIABLE=value")
    if not name or not heads:
        raise ValueError(f"{text!r} is not NAME=HEAD[;HEAD...][;VARIABLE=VALUE...]")
    return Mode(name, tuple(heads), environment)
