"""Use and limit of a level have one reference: the group's limit isn't set beside the machine's use."""

import pytest
from holdfast.monitor import archive, report, source

GB = source.GIGABYTE
FACTS = {
    "cores": 2.0,
    "machine_cores": 64,
    "memory_bytes": 256 * GB,
    "memory_limit_bytes": 4 * GB,
    "memory_limit_source": "/sys/fs/cgroup/user.slice/memory.max",
    "slurm_job": "7",
    "slurm_limit_bytes": 8 * GB,
    "slurm_limit_source": "",
    "gpus": [],
    "gpu_trouble": "",
}


class View:
    """Of a process under a control group's limits, on the machine itself or in a container."""

    def __init__(self, in_container):
        self.columns = [("memory", "gauge", b"", None, None)]
        if not in_container:
            self.columns.append(("cpu_util_0", "gauge", b"", None, None))

    def facts(self):
        return FACTS

    def state(self):
        return {"available": 15}

    def rows(self, level, begin, end):
        return b"", b"", self.columns if level == source.LEVELS.index("system") else []


@pytest.mark.parametrize(
    "in_container, limits, cores",
    [
        (False, {"process": 4, "user": 256, "system": 256, "slurm": 8}, 64),
        (True, {"process": 4, "user": 4, "system": 4, "slurm": 8}, 2),
    ],
)
def test_limits(in_container, limits, cores):
    monitor = source.Monitor.__new__(source.Monitor)
    monitor._view = View(in_container)
    resources = monitor.resources()
    assert resources["memory_limits"] == limits
    assert {level: report._limits(level, resources)["memory"] for level in limits} == limits
    assert [monitor._cores(level) for level in source.LEVELS] == [
        cores if level in ("user", "system") else 2 for level in source.LEVELS
    ]
    saved = archive._resources(archive._monitor({}, resources))
    assert {level: report._limits(level, saved)["memory"] for level in limits} == limits
