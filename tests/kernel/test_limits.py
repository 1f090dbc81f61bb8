"""A kernel whose processes may have only so many addresses (ulimit -v), as on many clusters."""

import json
import resource
import subprocess
import sys
from pathlib import Path


import pytest

from holdfast.store import Session

MIB = 1 << 20
LIMIT = 16_000_000 * 1024
PORTS = ("shell", "iopub", "stdin", "control", "hb")
CONNECTION = {
    "transport": "ipc",
    "key": "k",
    "signature_scheme": "hmac-sha256",
    **{f"{name}_port": number for number, name in enumerate(PORTS, 1)},
}
PROGRAM = Path(sys.executable).parent / "holdfast-kernel"
CELL = "%%execute_with_scorep --run=isolated\n"


def few_addresses():
    """For the process that calls it, and all below."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, resource.getrlimit(resource.RLIMIT_AS)[1]))


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


@pytest.mark.long
def test_a_kernel_works_with_few_addresses(start_kernel):
    kernel = start_kernel(before=few_addresses)
    limit = "import resource; resource.getrlimit(resource.RLIMIT_AS)[0]"
    assert ok(kernel, limit).result == str(LIMIT)
    ok(kernel, f"import numpy as np\na = np.ones({256 * MIB} // 8)")
    for _ in range(2):
        ok(kernel, CELL + "a[::512] += 1; b = a * 2")
    assert ok(kernel, "float(a.sum() + b.sum())").result == str(3.0 * (32 * MIB + 2 * 65536))
    with Session.open("/" + kernel.segment().name) as session:
        assert LIMIT // 4 < session.info()["capacity_bytes"] <= LIMIT // 3 + 4096


def test_too_few_addresses_are_an_error_that_says_so(tmp_path):
    connection = tmp_path / "connection.json"
    connection.write_text(json.dumps(CONNECTION | {"ip": str(tmp_path / "socket")}))
    command = f"ulimit -v {200 * 1024}; exec {PROGRAM} -f {connection}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert "ulimit -v" in ended.stderr and "MiB of addresses" in ended.stderr, ended.stderr
