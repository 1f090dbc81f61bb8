"""What workers say: nothing is lost, and nothing stays in the frontend."""

import os
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient
from waiting import until

CELL = "%%execute_with_scorep\n"
MIB = 1 << 20


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def await_memory(kernel, limit):
    """Until the frontend's resident bytes are below `limit`."""
    until(lambda: resident_bytes(kernel.pid) < limit, lambda: resident_bytes(kernel.pid), pause=0.1)


@pytest.mark.parametrize("head", ["", CELL])
def test_a_hundred_thousand_prints(kernel, head):
    kernel.run("1")
    before = resident_bytes(kernel.pid)
    outcome = kernel.run(head + "for i in range(100_000): print(i)", timeout=120)
    printed = outcome.stream().split("Instrumentation")[0].split()
    assert printed == [str(i) for i in range(100_000)]
    assert len(outcome.types) < 10_000  # neighbours are joined
    await_memory(kernel, before + 16 * MIB)


def test_a_line_of_32_mib(kernel):
    kernel.run("1")
    before = resident_bytes(kernel.pid)
    for code in (
        "print('x' * (32 << 20))",
        "import os; os.write(1, b'x' * 1000)\nprint('y' * (32 << 20))",
    ):
        text = kernel.run(code, timeout=120).stream()
        assert text.count("x") + text.count("y") in (32 * MIB, 32 * MIB + 1000)
    await_memory(kernel, before + 16 * MIB)


def second_client(kernel):
    """One of its own: clients that the manager makes share an identity on the wire."""
    client = BlockingKernelClient(connection_file=kernel.manager.connection_file)
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    return client


def test_two_clients_at_once(kernel):
    """Each has the replies to its own requests, and both see all that is published."""
    other = second_client(kernel)
    try:
        mine = [kernel.client.execute(f"a = {i}; print('mine', a)") for i in range(10)]
        theirs = [other.execute(f"b = {i}; print('theirs', b)") for i in range(10)]
        for client, sent in ((kernel.client, mine), (other, theirs)):
            got = [client.get_shell_msg(timeout=60) for _ in range(10)]
            assert [reply["parent_header"]["msg_id"] for reply in got] == sent
            assert {reply["content"]["status"] for reply in got} == {"ok"}
        for client in (kernel.client, other):
            idle, text = set(), ""
            while len(idle) < 20:
                message = client.get_iopub_msg(timeout=60)
                parent = message["parent_header"].get("msg_id")
                if message["msg_type"] == "stream":
                    text += message["content"]["text"]
                elif message["content"].get("execution_state") == "idle":
                    idle.update({parent} & {*mine, *theirs})
            assert text.count("mine") == 10 and text.count("theirs") == 10
    finally:
        other.stop_channels()


@pytest.mark.parametrize("head", ["", CELL])
def test_a_client_that_leaves_while_it_is_asked(kernel, head):
    other = second_client(kernel)
    sent = other.execute(head + "input('who? ')", allow_stdin=True)
    assert other.get_stdin_msg(timeout=60)["content"]["prompt"] == "who? "
    other.stop_channels()
    kernel.control("interrupt_request")
    status = None
    while status != "idle":  # of the cell of the one that left
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == sent:
            status = message["content"].get("execution_state")
    assert kernel.run(head + "1").result == "1"
    assert kernel.run(head + "input('you? ')", answers=["me"]).result == "'me'"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("'ended', id='one', end={}", "ended: id: its type isn't int"),
        ("'started', id=1", "started: begin is missing"),
        ("'handle', handle=1, found=True", "handle: 1 descriptors were announced, and 0 came"),
    ],
    ids=["type", "missing", "descriptor"],
)
def test_a_wrong_frame_ends_its_worker_and_is_named(plain_kernel, tmp_path, sent, words):
    outcome = plain_kernel.run(f"channel.send({sent})\nchannel.receive()")
    assert outcome.content["ename"] == "CellDied"
    assert f"a worker broke the protocol: {words}" in (tmp_path / "stderr").read_text()
    assert plain_kernel.run("1").result == "1"
