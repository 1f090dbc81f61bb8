"""The data of a view, as types: web/schema/views.json says what each part means.

Modules import these names for the type checker only, so they cost nothing at run time. A test
compares them with the schema. A column is any object with a length and numbers: a list, an array, a
memoryview. Times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

Integers = Sequence[int]
Measured = Sequence[float | None]


class Cell(TypedDict):
    """A cell that ran meanwhile."""

    index: int
    begin: int
    end: NotRequired[int | None]
    kind: NotRequired[str]
    outcome: NotRequired[str]
    source: NotRequired[str]


class Series(TypedDict):
    """One line of a track."""

    name: str
    values: Measured
    min: NotRequired[Measured]
    max: NotRequired[Measured]
    hidden: NotRequired[bool]


class Track(TypedDict):
    """Metrics of one unit over time."""

    name: str
    time: Integers
    series: list[Series]
    level: NotRequired[str]
    hidden: NotRequired[bool]
    unit: NotRequired[str]
    low: NotRequired[float]
    high: NotRequired[float]


class Regions(TypedDict):
    """The regions to which the other parts refer by index."""

    name: list[str]
    file: NotRequired[list[str]]
    line: NotRequired[list[int]]
    kind: NotRequired[list[str]]
    cell: NotRequired[list[int]]
    waits: NotRequired[list[bool]]


class Costs(TypedDict):
    """What one thread spent on the call paths, by their places in the tree of all."""

    path: Integers
    visits: Integers
    inclusive: Integers


class Location(TypedDict):
    """The slices of one thread."""

    begin: Integers
    duration: Integers
    depth: Integers
    region: Integers
    count: NotRequired[Integers]
    busy: NotRequired[Integers]
    longest: NotRequired[Integers]
    process: NotRequired[str]
    thread: NotRequired[str]
    pixel: NotRequired[int]
    calls: NotRequired[int]
    id: NotRequired[int]
    costs: NotRequired[Costs]


class Row(Location):
    """A location as `_views.read` returns it: the schema doesn't need these parts."""

    host: str
    events: int
    levels: int
    hidden: int


class Tree(TypedDict):
    """Call paths in preorder."""

    depth: Integers
    region: Integers
    visits: Integers
    inclusive: Integers


class NamedTree(Tree):
    """One of the trees that a page offers."""

    name: str


class Table(TypedDict):
    """Every region once."""

    region: Integers
    visits: Integers
    inclusive: Integers
    exclusive: Integers


class Previous(TypedDict):
    """The table of the run before."""

    table: Table
    title: NotRequired[str]
    seconds: NotRequired[float]


class SourceFunction(TypedDict):
    """A function of a source file. Times are in seconds."""

    name: str
    line: int
    last: int
    calls: int
    own: float
    inclusive: float
    unplaced: NotRequired[int]


class SourceLines(TypedDict):
    """The lines of a source file that have code, in columns. Times are in seconds."""

    line: list[int]
    samples: list[int]
    own: list[float]
    inclusive: list[float]
    share: list[float]


class SourceFile(TypedDict):
    """A file of the user's own."""

    name: str
    seconds: float
    functions: list[SourceFunction]
    cell: NotRequired[int]
    text: NotRequired[str]
    lines: NotRequired[SourceLines]


class Source(TypedDict):
    """Time beside the code."""

    kind: str
    seconds: float
    notes: list[str]
    files: list[SourceFile]


class Spread(TypedDict):
    """What several runs took. Times are in seconds."""

    median: float
    low: float
    high: float


class Repeated(TypedDict):
    """A function's exclusive time in several runs, and in the runs before, if there are any."""

    name: str
    file: str
    line: int
    now: Spread
    before: NotRequired[Spread]
    outcome: NotRequired[str]


class Repeats(TypedDict):
    """One set of recordings, or two. Each list is of this set, and of the one before, if any."""

    runs: list[int]
    titles: list[str]
    statement: str
    seconds: list[Spread]
    functions: list[Repeated]


class Archive(TypedDict):
    """What `_views.read` returns, its columns as arrays."""

    realtime: int
    length: int
    host: str
    processes: int
    events: int
    collapsed: int
    regions: Regions
    rows: list[Row]
    paths: Tree
    table: Table


class Detail(TypedDict):
    """The kernel that reads more of a trace when a page asks for it."""

    trace: str
    kernel: NotRequired[str]


class View(TypedDict):
    """The data that `holdfast.pages.page.bundle` takes."""

    begin: int
    end: int
    title: NotRequired[str]
    origin: NotRequired[int]
    level: NotRequired[str]
    window: NotRequired[int]
    wall: NotRequired[float]
    seconds: NotRequired[float]
    detail: NotRequired[Detail]
    facts: NotRequired[list[tuple[str, str]]]
    notes: NotRequired[list[str]]
    cells: NotRequired[list[Cell]]
    tracks: NotRequired[list[Track]]
    regions: NotRequired[Regions]
    locations: NotRequired[Sequence[Location]]
    paths: NotRequired[list[NamedTree]]
    table: NotRequired[Table]
    previous: NotRequired[Previous]
    source: NotRequired[Source]
    repeats: NotRequired[Repeats]


class Shown(View):
    """The same data, as it is put into a page."""

    view: NotRequired[str]  # that is shown first


class Function(TypedDict):
    """A row of `Trace.table`. Times are in seconds."""

    name: str
    file: str
    line: int
    visits: int
    inclusive: float
    exclusive: float


class Took(TypedDict):
    """The time of a function in the run before. Times are in seconds."""

    visits: int
    inclusive: float
    exclusive: float


class Compared(Function):
    """A row of `Trace.comparison`."""

    before: Took
    change: float


class Cost(TypedDict, total=False):
    """What the kernel reports of a cell in ``metadata.holdfast`` (kernel/session/request.c)."""

    run: str
    run_reason: str
    trace: str
    reason: str
    hand_over_in_ms: float
    run_ms: float
    hand_over_out_ms: float
    commit_ms: float
    wait_ms: float
    bind_ms: float
    trace_ms: float
    flush_ms: float
    prepare_ms: float
    cpu_ms: float
    recorder_ms: float
    bytes_copied: int
    bytes_mapped: int
    bytes_shared: int
    bytes_prepared: int
    bytes_populated: int
    bytes_preallocated: int
    bytes_peak: int
    bytes_grown: int
    bytes_read: int
    bytes_written: int
    copy_faults: int
    names_bound: int
    names_decoded: int
    names_skipped: int
    names_saved: int
    names_unserializable: int
    events: int
    events_lost: int
    events_rewound: int
    events_others: int
    flushes: int


class Run(TypedDict):
    """A recorded cell that ran (kernel/session/runs.c)."""

    number: int
    code: str
    trace: str
    outcome: str
    multicell: bool
    automatic: NotRequired[bool]
    begin_ns: int
    end_ns: int
    wall: float
    cost: Cost
