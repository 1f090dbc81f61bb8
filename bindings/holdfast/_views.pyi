import os
from typing import Any

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
) -> dict[str, Any]: ...
def write(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    format: str,
    /,
    *,
    begin: float | None = None,
    end: float | None = None,
) -> None: ...
