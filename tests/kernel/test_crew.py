"""Workers that die, in every role, by every way."""

import os
import signal
import time

import pytest

CELL = "%%execute_with_scorep\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.kill(os.getpid(), 9)", "signal 9 (SIGKILL), perhaps because memory"),
        ("import ctypes; ctypes.string_at(0)", "signal 11 (SIGSEGV)"),
        ("import os; os.abort()", "signal 6 (SIGABRT)"),
        ("import os; os._exit(3)", "left with exit status 3"),
    ],
)
def test_a_dead_cell_costs_its_cell(plain_kernel, code, words):
    kernel = plain_kernel
    kernel.run("kept = 5")
    outcome = kernel.run(CELL + code)
    assert outcome.status == "error" and outcome.content["ename"] == "CellDied"
    assert words in outcome.content["evalue"]
    assert outcome.types.count("error") == 1
    assert kernel.run("kept").result == "5"
    assert kernel.run(CELL + "role").result == "'cell'"


def test_output_before_death_is_shown(plain_kernel):
    outcome = plain_kernel.run(
        CELL + "import os\nprint('python')\nos.write(1, b'raw')\nos.kill(os.getpid(), 9)"
    )
    assert "python" in outcome.stream() and "raw" in outcome.stream()
    assert outcome.types.index("error") > outcome.types.index("stream")


def test_a_dead_home_is_replaced(plain_kernel):
    kernel = plain_kernel
    time.sleep(0.3)
    outcome = kernel.run("import os; os.kill(os.getpid(), 11)")
    assert outcome.content["ename"] == "CellDied" and "SIGSEGV" in outcome.content["evalue"]
    assert outcome.types.count("error") == 1
    assert kernel.run("frames").result == "['adopt', 'request']"


def test_a_home_that_dies_between_cells(plain_kernel):
    kernel = plain_kernel
    pid = int(kernel.run("import os; os.getpid()").result)
    time.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    assert int(kernel.run("import os; os.getpid()").result) != pid


def test_a_dead_template_costs_all_of_them_once(plain_kernel):
    kernel = plain_kernel
    template = int(kernel.run("import os; os.getppid()").result)
    os.kill(template, signal.SIGKILL)
    time.sleep(0.5)
    assert kernel.run("1").status == "ok"
    assert int(kernel.run("import os; os.getppid()").result) != template
    assert kernel.run(CELL + "role").result == "'cell'"


def test_a_worker_that_breaks_the_protocol_is_ended(plain_kernel):
    kernel = plain_kernel
    code = "channel.socket.sendall(b'\\0\\0\\0\\x05\\xdd\\xff\\xff\\xff\\xff'); import time; time.sleep(50)"
    outcome = kernel.run(CELL + code, timeout=20)
    assert outcome.content["ename"] == "CellDied"
    assert kernel.run("1").status == "ok"


def test_a_program_that_cannot_start_ends_the_kernel(start_kernel):
    with pytest.raises(RuntimeError):
        start_kernel(python="/bin/false")


def test_fifty_cells_leave_no_descriptor(plain_kernel):
    kernel = plain_kernel
    for _ in range(5):
        kernel.run(CELL + "1")
    time.sleep(0.3)
    before = len(os.listdir(f"/proc/{kernel.pid}/fd"))
    for _ in range(50):
        kernel.run(CELL + "1")
    time.sleep(0.3)
    assert len(os.listdir(f"/proc/{kernel.pid}/fd")) <= before + 3


def test_a_session_of_thirty_cells_leaves_nothing(kernel):
    """Plain, instrumented and dying cells by turns: descriptors, processes, memory, segments."""
    pid = kernel.pid
    codes = ["x = 1", CELL + "x += 1", CELL + "import os; os.kill(os.getpid(), 9)"]
    kernel.run("import os")
    for code in codes:
        kernel.run(code)
    time.sleep(1)
    before = held(pid)
    for turn in range(30):
        outcome = kernel.run(codes[turn % 3])
        assert outcome.status == ("error" if turn % 3 == 2 else "ok")
    deadline = time.monotonic() + 10
    while held(pid)[:2] > before[:2] and time.monotonic() < deadline:
        time.sleep(0.1)
    descriptors, processes, segments, resident = held(pid)
    assert descriptors <= before[0] and processes <= before[1]
    assert len(segments) == 1 and segments == before[2]
    assert resident < before[3] + (4 << 20)
    assert kernel.run("x").result == "2"


def held(pid):
    """Descriptors, processes below (zombies count), segments, resident bytes."""
    below, todo = 0, [pid]
    while todo:
        at = todo.pop()
        try:
            with open(f"/proc/{at}/task/{at}/children") as file:
                found = file.read().split()
        except FileNotFoundError:
            continue
        below += len(found)
        todo += found
    with open(f"/proc/{pid}/maps") as file:
        segments = {line.split()[-1] for line in file if "/dev/shm/holdfast" in line}
    with open(f"/proc/{pid}/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(os.listdir(f"/proc/{pid}/fd")), below, segments, resident
