import typing as t

from .monitor.sampled import Reading as _Reading

class _State(t.TypedDict):
    running: bool
    available: int
    interval_ns: int
    begin_ns: int
    unix_ns: int
    end_ns: int
    samples: int
    missed: int
    cost_ns: int
    costed: int
    pids: list[int]
    level_costs: list[float]

class _Gpu(t.TypedDict):
    name: str
    memory_bytes: float

class _Facts(t.TypedDict):
    cores: float
    machine_cores: int
    memory_bytes: float
    memory_limit_bytes: float
    memory_limit_source: str
    slurm_limit_bytes: float
    slurm_limit_source: str
    slurm_job: str
    gpus: list[_Gpu]
    gpu_trouble: str

class _Cell(t.TypedDict):
    index: int
    number: int
    source: str
    source_cut: bool
    begin_ns: int
    end_ns: int
    unix_ns: int
    peak_bytes: float
    begin_bytes: float
    end_bytes: float
    kind: str
    outcome: str
    pids: list[int]
    begin: list[_Reading | None]
    end: list[_Reading | None]

@t.final
class View:
    def __new__(cls, fd: int) -> View: ...
    def state(self) -> _State: ...
    def facts(self) -> _Facts: ...
    def rows(
        self, level: int, begin_ns: int, end_ns: int, /
    ) -> tuple[bytes, bytes, list[tuple[str, str, bytes, bytes | None, bytes | None]]]: ...
    def cells(self) -> tuple[int, int]: ...
    def cell(self, index: int, /) -> _Cell: ...
