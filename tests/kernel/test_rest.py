"""What happens once nobody uses the notebook: memory goes back, checksums are taken, then nothing."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from processes import fields_of, state
from waiting import until

from holdfast.store import CorruptError, Session

MIB = 1 << 20
CELL = "%%execute_with_scorep --run=isolated\n"


@pytest.fixture
def rested(start_kernel):
    """A kernel that rests after half a second, and how to look at its session."""
    kernel = start_kernel(env={"HOLDFAST_REST_SECONDS": "0.5"})
    with Session.open("/" + kernel.segment().name) as session:
        yield kernel, session


def processor_ticks(pid):
    fields = fields_of(pid)
    return int(fields[11]) + int(fields[12])


def own_bytes(pid):
    """Memory that is no file's."""
    words = Path(f"/proc/{pid}/status").read_text().split("RssAnon:")[1].split()
    return int(words[0]) * 1024


def sleeps(pid, seconds):
    """Whether it does next to nothing for so long, and not because others have the processors."""
    before = processor_ticks(pid)
    time.sleep(seconds)
    return processor_ticks(pid) - before <= 2 and state(pid) == "S"


def test_free_memory_goes_back_and_the_next_cell_works(rested):
    kernel, session = rested
    # In the frontend, 20 MiB of it in the heap of libzmq's thread.
    kernel.run("from IPython.display import display\ntext = 'x' * (10 << 20)")
    kernel.run("display({'text/plain': text}, raw=True); del text")
    assert until(lambda: own_bytes(kernel.pid) < 8 * MIB), own_bytes(kernel.pid)
    kernel.run("%holdfast history 0")
    kernel.run("import numpy as np\na = np.ones(64 << 17); kept = np.ones(8 << 17)")
    kernel.run(CELL + "a += 1; kept += 1")
    kernel.run("del a")
    until(lambda: session.info()["allocated_bytes"] < 24 * MIB, session.info)
    assert kernel.run("float(kept.sum()) / len(kept)").result == "2.0"
    assert kernel.run(CELL + "a = np.ones(64 << 17); float(a[-1] + kept[0])").result == "3.0"


def test_what_the_store_has_free_stays_until_then(start_kernel):
    kernel = start_kernel(env={"HOLDFAST_REST_SECONDS": "1000"})
    maps = Path(f"/proc/{kernel.pid}/maps").read_text().splitlines()
    (path,) = {line.split()[5] for line in maps if "/dev/shm/holdfast-" in line}
    kernel.run("%holdfast history 0")
    kernel.run("import numpy as np\na = np.ones(64 << 17)")
    kernel.run(CELL + "del a")
    kernel.run(CELL + "b = 1")
    time.sleep(1)
    assert os.stat(path).st_blocks * 512 > 64 * MIB


def test_damage_of_what_is_committed_is_found(rested):
    kernel, session = rested
    kernel.run("import numpy as np\nkept = np.full(8 << 17, 1.25)")
    kernel.run(CELL + "kept[0] = 2")
    until(lambda: len(kernel.workers()) == 1)  # standbys are given back before the checksums
    until(lambda: sleeps(kernel.pid, 1))
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
    until(lambda: len(kernel.workers()) == 1)
    until(lambda: sleeps(kernel.pid, 2))


def test_what_cannot_be_saved_is_reported_once(start_kernel):
    """Not only in the server's log: who loses the process would lose the variables."""
    kernel = start_kernel(arguments=["--capacity", str(16 * MIB)])
    told = "the notebook's variables could not be saved"
    kernel.run("large = bytes(32 << 20)")

    def hears(words):
        message = kernel.client.get_iopub_msg(timeout=60)
        return message["msg_type"] == "stream" and words in message["content"]["text"]

    assert until(lambda: hears(told))
    kernel.run("%holdfast diff")  # tries again
    assert told not in kernel.run("small = 1").stream("stderr")
    kernel.run("del large")
    kernel.settle()
    kernel.run("large = bytes(32 << 20)")
    assert until(lambda: hears(told))
