import os
from typing import NotRequired, TypedDict

class _Costs(TypedDict):
    path: bytes
    visits: bytes
    inclusive: bytes

class _Row(TypedDict):
    host: str
    process: str
    thread: str
    id: int
    events: int
    calls: int
    levels: int
    hidden: int
    pixel: int
    begin: bytes
    duration: bytes
    depth: bytes
    region: bytes
    count: bytes
    busy: bytes
    longest: bytes
    costs: NotRequired[_Costs]

class _Tree(TypedDict):
    depth: bytes
    region: bytes
    visits: bytes
    inclusive: bytes

class _Table(TypedDict):
    region: bytes
    visits: bytes
    inclusive: bytes
    exclusive: bytes

class _Regions(TypedDict):
    name: list[str]
    file: list[str]
    line: list[int]
    kind: list[str]
    waits: list[bool]

class _Archive(TypedDict):
    realtime: int
    length: int
    host: str
    processes: int
    events: int
    collapsed: int
    regions: _Regions
    rows: list[_Row]
    paths: _Tree
    table: _Table

def span(path: str | os.PathLike[str], /) -> tuple[int, int]: ...
def read(
    path: str | os.PathLike[str],
    /,
    *,
    begin: float | None = None,
    end: float | None = None,
    origin: int = 0,
    slices: int = 100000,
    paths: int = 20000,
) -> _Archive: ...
def write(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    format: str,
    /,
    *,
    begin: float | None = None,
    end: float | None = None,
) -> None: ...
