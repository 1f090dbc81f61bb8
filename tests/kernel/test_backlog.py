"""Subscribers that don't read: nobody waits for them, and the frontend stays small."""

import json

import effort
import pytest
import zmq

from tests.kernel.test_inbox import await_memory, resident_bytes

MIB = 1 << 20
PIECE = 64 << 10
# Each piece is a message of its own, and says which it is.
SHOW = "from IPython.display import display\nfor i in range({}): display({{'text/plain': '%06d' % i + 'x' * {}}}, raw=True)"


class Subscriber:
    """One that reads when it is asked to, and has room for a few messages. With less than two segments of TCP
    (64 KiB on the loopback) a sender that has found no room asks again only after ever longer pauses."""

    def __init__(self, kernel):
        ports = kernel.manager.get_connection_info()
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.rcvhwm, self.socket.rcvbuf, self.socket.linger = 1, 256 << 10, 0
        self.socket.subscribe(b"")
        self.socket.connect(f"tcp://{ports['ip']}:{ports['iopub_port']}")
        assert self.socket.poll(10_000), "no welcome"

    def shown(self, last=None):
        """The numbers of the displays that it got, and what it read on stderr: up to the display
        `last`, or until something is reported. That comes within a second of the last display."""
        numbers, text = [], ""
        while not text and (not numbers or numbers[-1] != last):
            assert self.socket.poll(60_000), (numbers[-1:], text)
            _, _, _, header, _, _, content = self.socket.recv_multipart()
            kind, content = json.loads(header)["msg_type"], json.loads(content)
            if kind == "display_data":
                numbers.append(int(content["data"]["text/plain"][:6]))
            elif kind == "stream" and content["name"] == "stderr":
                text += content["text"]
        return numbers, text

    def close(self):
        self.socket.close()
        self.context.term()


@pytest.fixture
def slow(kernel_with_backlog):
    subscriber = Subscriber(kernel_with_backlog)
    yield subscriber
    subscriber.close()


@pytest.fixture
def kernel_with_backlog(start_kernel):
    """At most 24 MiB of output wait in it."""
    return start_kernel(arguments=["--backlog", str(24 * MIB)])


def numbers_of(outcome):
    shown = [m["content"] for m in outcome.messages if m["msg_type"] == "display_data"]
    return [int(content["data"]["text/plain"][:6]) for content in shown]


def test_below_the_limit_a_sleeper_loses_nothing(kernel_with_backlog, slow):
    count = 5000  # more than libzmq's own bound has room for at first
    outcome = kernel_with_backlog.run(SHOW.format(count, 100))
    assert numbers_of(outcome) == list(range(count))
    assert slow.shown(count - 1) == (list(range(count)), "")


@pytest.mark.parametrize("size", effort.core([PIECE, 4096], [PIECE]))
def test_beyond_it_only_the_sleeper_misses_some_and_is_reported(kernel_with_backlog, slow, size):
    kernel = kernel_with_backlog
    kernel.run("1")
    before = resident_bytes(kernel.pid)
    count, peak = 8 * MIB // size, 0
    for _ in range(20):
        outcome = kernel.run(SHOW.format(count, size))
        assert numbers_of(outcome) == list(range(count))
        peak = max(peak, resident_bytes(kernel.pid))
    assert peak - before < 80 * MIB  # of 160
    got, text = slow.shown()
    assert 0 < len(got) < 20 * count
    assert got == [i % count for i in range(len(got))]  # the beginning, whole
    assert "has missed some" in text
    outcome = kernel.run(SHOW.format(20, 100))
    assert numbers_of(outcome) == list(range(20))
    assert slow.shown(19) == (list(range(20)), "")


def test_dead_subscribers_free_what_they_held(kernel_with_backlog):
    kernel = kernel_with_backlog
    kernel.run("1")
    before = resident_bytes(kernel.pid)
    for _ in range(5):
        subscriber = Subscriber(kernel)
        kernel.run(SHOW.format(300, PIECE))
        assert resident_bytes(kernel.pid) - before > 10 * MIB
        subscriber.close()
    await_memory(kernel, before + 50 * MIB)  # of 94
