"""What happens once nobody uses the notebook: memory goes back, checksums are taken, then nothing."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from holdfast.store import CorruptError, Session

MIB = 1 << 20
CELL = "%%execute_with_scorep --road=map\n"


@pytest.fixture
def rested(start_kernel):
    """A kernel that rests after half a second, and how to look at its session."""
    kernel = start_kernel(env={"HOLDFAST_REST_SECONDS": "0.5"})
    maps = Path(f"/proc/{kernel.pid}/maps").read_text().splitlines()
    (path,) = {line.split()[5] for line in maps if "/dev/shm/holdfast-" in line}
    with Session.open("/" + Path(path).name) as session:
        yield kernel, session


def until(done, seconds=20):
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.1)
    return done()


def processor_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_free_memory_goes_back_and_the_next_cell_works(rested):
    kernel, session = rested
    kernel.run("import numpy as np\na = np.ones(64 << 17); kept = np.ones(8 << 17)")
    kernel.run(CELL + "a += 1; kept += 1")
    kernel.run("del a")
    assert until(lambda: session.info()["allocated_bytes"] < 24 * MIB), session.info()
    assert kernel.run("float(kept.sum()) / len(kept)").result == "2.0"
    assert kernel.run(CELL + "a = np.ones(64 << 17); float(a[-1] + kept[0])").result == "3.0"


def test_nothing_is_given_back_before(start_kernel):
    kernel = start_kernel(env={"HOLDFAST_REST_SECONDS": "1000"})
    maps = Path(f"/proc/{kernel.pid}/maps").read_text().splitlines()
    (path,) = {line.split()[5] for line in maps if "/dev/shm/holdfast-" in line}
    kernel.run("import numpy as np\na = np.ones(64 << 17)\ndel a")
    time.sleep(1)
    assert os.stat(path).st_blocks * 512 > 64 * MIB


def test_damage_of_what_is_committed_is_found(rested):
    kernel, session = rested
    kernel.run("import numpy as np\nkept = np.full(8 << 17, 1.25)")
    kernel.run(CELL + "kept[0] = 2")
    time.sleep(3)  # half a second, and some turns for the checksums
    path = Path("/dev/shm", session.name.lstrip("/"))
    place = path.read_bytes().rfind(np.full(1 << 16, 1.25).tobytes())
    assert place > 0
    session.verify()
    with open(path, "r+b") as file:
        file.seek(place + 1000)
        file.write(b"\x55")
    with pytest.raises(CorruptError):
        session.verify()


def test_a_rested_kernel_sleeps(rested):
    kernel, _ = rested
    kernel.run("import numpy as np\nkept = np.ones(8 << 17)")
    kernel.run(CELL + "kept[0] = 2")
    time.sleep(3)
    before = processor_ticks(kernel.pid)
    time.sleep(2)
    assert processor_ticks(kernel.pid) - before <= 2
