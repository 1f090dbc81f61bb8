"""The types of data that the worker's modules pass to each other: reports, requests, steps of the history.

Modules import these names for the type checker only, so they cost nothing at run time. They are dicts because
they are sent in frames of the control channel, which kernel/workers/protocol.h describes. Seconds are floats,
sizes are bytes.
"""

from __future__ import annotations

import typing as t


class CommitCounts(t.TypedDict, total=False):
    """The values that a commit looked at, and the bytes that it moved."""

    bytes_copied: int
    bytes_shared: int
    copy_faults: int  # pages of mapped values that were written
    names_saved: int
    names_unserializable: int
    names_examined: int
    names_encoded: int


class Usage(t.TypedDict, total=False):
    """The part of a report that says what the cell took of its machine."""

    seconds_cpu: float
    seconds_unrecorded: float  # the part of it by processes below this one that aren't in the trace
    bytes_peak: int
    bytes_grown: int
    bytes_read: int
    bytes_written: int


class Counts(t.TypedDict, total=False):
    """The part of a report that a recording gives when it is closed."""

    events: int
    events_others: int
    events_lost: int
    events_rewound: int
    flushes: int
    seconds_flushed: float


class Report(Usage, Counts, CommitCounts, total=False):
    """The cost of a recorded or isolated cell, and its results for the main worker.

    The frontend reads its figures (kernel/session/request.c), `op_adopt` of the main worker the rest.
    """

    run: str
    run_reason: str
    reason: str  # why all names were bound, or ""
    error: str  # why nothing could be saved
    collected: bool  # the cell's process has run a full collection
    recorder: str  # "builtin" or "scorep"
    summary: bool  # whether the line below the cell is wanted
    raised: bool
    # Time
    seconds_in: float
    seconds_run: float
    seconds_out: float
    seconds_trace: float  # of seconds_out: until the recording was closed
    seconds_prepared: float
    seconds_recorder: float
    # Memory
    bytes_mapped: int
    bytes_prepared: int
    bytes_populated: int
    bytes_preallocated: int
    page_faults: int
    # Names
    names_bound: int
    names_decoded: int
    names_skipped: int
    # For the main worker
    names_lost: dict[str, str]  # what could not be carried out, and why
    outputs_gone: list[int]  # results that code has taken out of Out
    names_gone: list[str]
    names_bound_anew: list[str]  # to other objects
    names_not_here: list[str]  # of which the cell's process had no copy
    numbers: dict[str, list[int]]  # that may be addresses, by the key of what has them
    submodules: list[str]  # that the main worker imports, too
    written: list[str]  # the code's key, and what it wrote without showing it


class CommitReport(CommitCounts, total=False):
    """The work and the cost of a commit of the main worker; empty before the first."""

    seconds: float
    reason: str  # why it looked at all names, or ""


class Instrument(t.TypedDict, total=False):
    """How a cell is to be recorded; it comes with the request."""

    arguments: list[str]
    isolated: bool
    run_reason: str
    unserializable: dict[str, str]  # names that the commit could not save, and why
    viewed: bool  # a program opens its trace at the reply
    name: bytes  # under which the frontend leases the generation that the cell binds


class Message(t.TypedDict):
    """A message of Jupyter's, as ipykernel's handlers take it.

    The content's keys depend on the type; see "Messaging in Jupyter" in jupyter_client's documentation.
    """

    header: dict[str, t.Any]
    msg_id: str
    msg_type: str
    parent_header: dict[str, t.Any]
    metadata: dict[str, t.Any]
    content: dict[str, t.Any]
    buffers: list[memoryview]


class ErrorContent(t.TypedDict):
    """The content of a reply that is an error."""

    status: str
    ename: str
    evalue: str
    traceback: list[str]


class Returned(t.TypedDict):
    """The names that a return to a step changed, brought back and removed."""

    changed: list[str]
    back: list[str]
    gone: list[str]


class Memory(t.TypedDict):
    """IPython's inputs and the numbers of its last results, as a commit has them."""

    raw: list[str]
    parsed: list[str]
    files: dict[str, int]  # the number of the cell, by its file's name
    sources: dict[str, str]  # of files that aren't the input of that number
    directories: list[str]
    unbound: t.NotRequired[list[str]]  # those of _, __ and ___ that are no names
    last: list[int]  # the numbers of _, __ and ___; 0: none
    gone: t.NotRequired[list[int]]  # the numbers that code has taken out of Out
    empty: t.NotRequired[list[str]]  # those of them that were no result yet, or are reset
    outcome: t.NotRequired[list[t.Any]]  # of the last cell: its number, whether it raised; or empty


class Step(t.TypedDict):
    """A generation that the history keeps."""

    unix_ns: int
    origin: int  # the step whose variables it has, if a return made it; else 0
    cells: str  # the numbers of those that led to it
    changed: t.NotRequired[list[str]]  # by them
    name: bytes  # for `_store._entries`


class History(t.TypedDict):
    """The frontend's part of a command of the history (kernel/session/generations.c).

    The frame has ``from`` besides, which can't be the name of an attribute here.
    """

    kind: str
    to: int
    target: int
    kept_bytes: int
    limit_bytes: int
    dropped: int
    undone: str
    pending: str
    unserializable: dict[str, str]
    steps: dict[str, Step]
