"""The processes of a session: none is left behind, and nothing of them."""

import os

from waiting import complete, until

CELL = "%%execute_with_scorep\n"


def test_a_worker_that_breaks_the_protocol_is_ended(plain_kernel):
    kernel = plain_kernel
    code = "channel.socket.sendall(b'\\0\\0\\0\\x05\\xdd\\xff\\xff\\xff\\xff'); import time; time.sleep(50)"
    outcome = kernel.run(CELL + code)
    assert outcome.content["ename"] == "CellDied"
    assert kernel.run("1").status == "ok"


def test_a_program_that_cannot_start_ends_the_kernel(start_kernel):
    try:
        kernel = start_kernel(python="/bin/false")
    except RuntimeError as error:
        assert "died" in str(error)
        return
    until(lambda: not kernel.manager.is_alive())  # it answered before it gave up


def test_the_end_waits_for_no_worker_that_is_just_forked(start_plain, tmp_path):
    """Nobody can kill whose number isn't known yet: it hears of the end by its channel."""
    untold, left = tmp_path / "untold", tmp_path / "left"
    untold.write_text("1000")
    settings = {"PLAIN_WORKER_UNTOLD": str(untold), "PLAIN_WORKER_LEFT": str(left)}
    kernel = start_plain(env={"HOLDFAST_RUN": "isolated"} | settings)
    kernel.run("1")
    until(lambda: untold.read_text() not in ("", "1000"))
    kernel.close()
    assert left.exists()  # the fork server wasn't killed while it waited for them


def test_fifty_cells_leave_no_descriptor(start_plain):
    kernel = start_plain(env={"HOLDFAST_RUN": "isolated"})
    for _ in range(5):
        kernel.run(CELL + "1")
    complete(kernel)
    before = len(os.listdir(f"/proc/{kernel.pid}/fd"))
    for _ in range(50):
        kernel.run(CELL + "1")
    until(lambda: len(os.listdir(f"/proc/{kernel.pid}/fd")) <= before + 3)


def test_a_session_of_thirty_cells_leaves_nothing(lend):
    """Plain, instrumented and dying cells by turns: descriptors, processes, memory, segments."""
    kernel = lend(HOLDFAST_PROTECT="always")
    pid = kernel.pid
    codes = ["x = 1", CELL + "x += 1", CELL + "import os; os.kill(os.getpid(), 9)"]
    kernel.run("import os")
    for code in codes:
        kernel.run(code)
    complete(kernel)
    before = held(pid)
    for turn in range(30):
        outcome = kernel.run(codes[turn % 3])
        assert outcome.status == ("error" if turn % 3 == 2 else "ok")

    def as_before():
        now = held(pid)
        return now[0] <= before[0] and now[1] <= before[1] and now

    _, _, segments, resident = until(as_before, lambda: (held(pid), before), pause=0.1)
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
