"""The worker's end of the control channel as Python has it; tests/worker/test_channel.c has the rest."""

import array
import json
import mmap
import os
import signal
import socket
import struct
import threading

import msgpack
import pytest

from holdfast import _store
from holdfast.worker import control
from holdfast.worker.control import Channel, ChannelClosed


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    channel = Channel(theirs.detach())
    with ours:
        yield ours, channel
    channel.close()


def encode(frame):
    body = msgpack.packb(frame)
    return struct.pack(">I", len(body)) + body


def frames_of(data):
    found = []
    while data:
        (size,) = struct.unpack_from(">I", data)
        found.append(msgpack.unpackb(data[4 : 4 + size], raw=False))
        data = data[4 + size :]
    return found


def identity(fd):
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def send_file(sock, path, **frame):
    """Send a frame with a new file; the file's identity."""
    with open(path, "w+") as file:
        socket.send_fds(sock, [encode(frame)], [file.fileno()])
        return identity(file.fileno())


def taken(channel, frame):
    (fd,) = channel.take_descriptors(frame)
    assert not os.get_inheritable(fd)
    try:
        return identity(fd)
    finally:
        os.close(fd)


def test_a_frame_waited_for_has_its_own_descriptor(ends, tmp_path):
    """A cell decodes a file while a debugger's socket, which came first, waits for its turn."""
    ours, channel = ends
    debug = send_file(ours, tmp_path / "debug", op="debug", target="cell", waits=True)
    handle = send_file(ours, tmp_path / "handle", op="handle", handle=1, found=True)
    assert not channel.pending
    assert taken(channel, channel.wait_for("handle")) == handle
    assert channel.pending
    (frame,) = channel.poll()
    assert frame["op"] == "debug" and taken(channel, frame) == debug
    assert not channel.pending


def test_frames_that_were_read_keep_theirs(ends, tmp_path):
    """The same where the first one was read already, and stands in the worker's own queue."""
    ours, channel = ends
    ours.sendall(encode({"op": "request", "id": 1}))
    debug = send_file(ours, tmp_path / "debug", op="debug")
    request, waiting = channel.poll()
    assert channel.take_descriptors(request) == []
    ours.sendall(encode({"op": "handle", "handle": 1, "found": False}))
    handle = send_file(ours, tmp_path / "handle", op="handle", handle=2, found=True)
    assert channel.take_descriptors(channel.wait_for("handle")) == []
    assert taken(channel, channel.wait_for("handle")) == handle
    assert taken(channel, waiting) == debug


def test_descriptors_that_did_not_come_are_missed(ends):
    ours, channel = ends
    ours.sendall(encode({"op": "debug"}))
    (frame,) = channel.poll()
    with pytest.raises(ValueError, match="a descriptor that was announced didn't come"):
        channel.take_descriptors(frame)


def test_all_types(ends):
    """What the table doesn't know of a frame comes as it is, and a report is sent with all it has."""
    ours, channel = ends
    odd = {"a": None, "b": [1, -1, 2**63, 0.5, True, "é", b"\xff"], "c": {"d": {}}}
    ours.sendall(encode({"op": "adopt", "report": odd, 5: "f"}) + encode({"op": "new"}))
    assert channel.poll() == [{"op": "adopt", "report": odd, 5: "f"}, {"op": "new"}]
    report = {**odd, "b": (1, -1, 0.5, True, "é", bytearray(b"\xff"))}
    channel.send("reply", id=3, report=report, buffers=[memoryview(b"xyz")[1:], b""])
    (sent,) = frames_of(ours.recv(4096))
    report["b"] = [1, -1, 0.5, True, "é", b"\xff"]
    assert sent == {"op": "reply", "id": 3, "report": report, "buffers": [b"yz", b""]}


def test_texts_without_utf_8(ends):
    """A path goes and comes as the system's bytes; what isn't one goes with a backslash."""
    ours, channel = ends
    for text, sent in (("d\udcff", b"d\xff"), ("\ud800x", b"\\ud800x")):
        channel.send("stream", name="stdout", text=text)
        frame = msgpack.unpackb(ours.recv(4096)[4:], raw=True)
        assert frame[b"text"] == sent
    body = msgpack.packb({"op": "new", "path": "d\udcff"}, unicode_errors="surrogateescape")
    ours.sendall(struct.pack(">I", len(body)) + body)
    assert channel.poll() == [{"op": "new", "path": "d\udcff"}]


def test_the_table_chooses_the_frame(ends):
    """There are two of this name: a main worker's, and the fork server's."""
    ours, channel = ends
    channel.send("forked", id=1, pid=2)
    channel.send("forked", role="cell", pid=3)
    assert [set(frame) for frame in frames_of(ours.recv(4096))] == [
        {"op", "id", "pid"},
        {"op", "role", "pid"},
    ]


def test_what_is_no_frame_of_the_table_is_not_sent(ends):
    ours, channel = ends
    nested = deep = []
    for _ in range(20):
        nested.append([])
        nested = nested[0]
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # that nobody reads
    huge = memoryview(mmap.mmap(-1, 2**31, flags=anonymous, prot=mmap.PROT_READ))
    half = [huge[: 2**30]] * 2
    for wrong, error, words in (
        (lambda: channel.send("reply", id=1, prepared=huge), ValueError, "longer than the channel"),
        (lambda: channel.send("reply", id=1, buffers=half), _store.Error, "is too large"),
        (lambda: channel.send("reply", id=1, prepared=array.array("b")), TypeError, "array.array"),
        (lambda: channel.send("nothing"), ValueError, "no frame nothing has the fields"),
        (lambda: channel.send("reply", id=1, idea=2), ValueError, "no frame reply"),
        (lambda: channel.send("reply"), _store.Error, "reply: id is missing"),
        (lambda: channel.send("reply", id="1"), _store.Error, "id: its type isn't int"),
        (lambda: channel.send("reply", id=2**64), OverflowError, ""),
        (lambda: channel.send("reply", id=1, report={"a": object()}), TypeError, "a object"),
        (lambda: channel.send("reply", id=1, report={"a": deep}), ValueError, "deeply"),
        (lambda: channel.send(), TypeError, "an op"),
    ):
        with pytest.raises(error, match=words or None):
            wrong()
    with pytest.raises(BlockingIOError):
        ours.recv(1, socket.MSG_DONTWAIT)


@pytest.mark.parametrize("text", ["x" * 3_000_000, "é" * 3_000_000])
def test_large_fields(ends, text):
    """Other threads run while the frontend is slow, and may drop what is being sent."""
    ours, channel = ends
    buffers = [bytearray(text.encode())]
    fields = {"channel": text, "type": "a", "content": b"b", "metadata": b"", "buffers": buffers}
    sending = threading.Thread(target=lambda: channel.send("message", **fields))
    sending.start()
    data = ours.recv(4)
    buffers.clear()
    (size,) = struct.unpack(">I", data)
    while len(data) < size + 4:
        data += ours.recv(1 << 20)
    sending.join()
    (sent,) = frames_of(data)
    assert sent["channel"] == text and sent["buffers"] == [text.encode()]


def test_frames_say_what_pipes_got_before_them(ends):
    """Counted from what the frontend has read, by its tally; nothing where it has read all."""
    ours, channel = ends
    pipes, tally = [os.pipe(), os.pipe()], os.memfd_create("tally")
    os.pwrite(tally, struct.pack("@I4xQQ", 6, 100, 200), 0)
    channel.watch(os.dup(tally), pipes[0][1], pipes[1][1])

    def raw():
        channel.send("stream", name="stdout", text="x")
        return frames_of(ours.recv(1000))[0].get("raw")

    assert raw() is None
    os.write(pipes[0][1], b"abc")
    assert raw() == [103, 200]
    channel.send("ready", version=1, pid=2)  # which nobody sees
    assert "raw" not in frames_of(ours.recv(1000))[0]
    os.write(pipes[1][1], b"d")
    assert raw() == [103, 201]
    os.pwrite(tally, struct.pack("@I4x", 7), 0)  # the frontend reads
    reading = threading.Timer(0.05, os.pwrite, (tally, struct.pack("@I4xQQ", 8, 102, 200), 0))
    reading.start()
    os.read(pipes[0][0], 2)
    assert raw() == [103, 201]
    reading.join()
    assert os.read(pipes[0][0], 9) == b"c" and os.read(pipes[1][0], 9) == b"d"
    assert raw() is None
    for fd in (tally, *pipes[0], *pipes[1]):
        os.close(fd)


def test_descriptors_that_the_user_closed_are_not_asked(ends):
    ours, channel = ends
    pipe, tally = os.pipe(), os.memfd_create("tally")
    os.truncate(tally, 24)
    before = set(os.listdir("/dev/fd"))
    channel.watch(tally, pipe[1], pipe[1])
    new = set(os.listdir("/dev/fd")) - before
    copies = {int(fd) for fd in new if os.path.exists(f"/dev/fd/{fd}")}
    os.close(min(copies - {channel.tally}))  # of the pipe
    os.write(pipe[1], b"x")
    channel.send("stream", name="stdout", text="x")
    assert "raw" not in frames_of(ours.recv(100))[0] and channel.tally == -1
    for fd in (*pipe, tally):
        os.close(fd)


def test_a_kept_frame_travels_with_the_next_one(ends):
    ours, channel = ends
    moment = {"time_ns": 1, "cpu_ns": 2, "children_ns": 3}
    channel.keep("ended", id=3, end=moment)
    with pytest.raises(BlockingIOError):
        ours.recv(1, socket.MSG_DONTWAIT)
    channel.send("reply", id=3)
    ended = {"op": "ended", "id": 3, "end": moment}
    assert frames_of(ours.recv(4096)) == [ended, {"op": "reply", "id": 3}]
    channel.send("reply", id=4)
    assert frames_of(ours.recv(4096)) == [{"op": "reply", "id": 4}]


def test_a_handle_goes_with_its_descriptor(ends, tmp_path):
    ours, channel = ends
    with open(tmp_path / "file", "w+") as file:
        channel.send_handle(5, file.fileno())
        data, (fd,), _, _ = socket.recv_fds(ours, 100, 2)
        assert identity(fd) == identity(file.fileno())
    os.close(fd)
    channel.send_handle(6, None)
    assert frames_of(data + ours.recv(100)) == [
        {"op": "handle", "handle": 5, "found": True},
        {"op": "handle", "handle": 6, "found": False},
    ]


def test_a_signal_ends_a_wait(ends):
    _, channel = ends

    def handle(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            channel.wait_for("handle")
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_of_signals_sends_after_the_frame(ends):
    """Not in the middle of one that waits for the frontend: it would be read as its rest."""
    ours, channel = ends
    data, text, last = bytearray(), "x" * 3_000_000, encode({"op": "owes"})

    def read():
        data.extend(ours.recv(4))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        while not data.endswith(last):
            data.extend(ours.recv(1 << 20))

    before = signal.signal(signal.SIGUSR1, lambda *_: channel.send("owes"))
    try:
        reading = threading.Thread(target=read)
        reading.start()
        channel.send("stream", name="stdout", text=text)
        reading.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert frames_of(data) == [{"op": "stream", "name": "stdout", "text": text}, {"op": "owes"}]


def test_the_end(ends):
    ours, channel = ends
    ours.sendall(encode({"op": "rest"}))
    ours.close()
    assert channel.poll() == [{"op": "rest"}]
    channel.await_end()
    assert channel.pending and channel.open
    for call in (channel.poll, lambda: channel.wait_for("rest"), lambda: channel.send("owes")):
        with pytest.raises(ChannelClosed):
            call()
    channel.close()
    assert not channel.open
    with pytest.raises(ChannelClosed, match="is closed"):
        channel.fileno()


def test_a_child_abandons_its_copy(ends):
    ours, channel = ends
    child = os.fork()
    if child == 0:
        channel.keep("owes")
        channel.abandon()
        try:
            channel.send("owes")
        except ChannelClosed:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    channel.send("owes")
    assert frames_of(ours.recv(100)) == [{"op": "owes"}]


def pack(content):
    return json.dumps(content, ensure_ascii=False).encode("utf8", "surrogatepass")


@pytest.mark.parametrize("long", ["x" * 70_000, '<a href="é">\n' * 9_000, "ab\ud800" * 40_000])
def test_content_with_long_texts(long):
    """At any place among what is shown; equal ones; none; what can't be escaped."""
    for shown in (
        {"text/plain": long},
        {"a": "1", "text/html": long, "b": {"c": long}, "image/png": long, "d": 'e"f'},
        {"a": "short"},
    ):
        content = {"data": shown, "metadata": {"f": "g"}, "transient": {}}
        assert control.packed(pack, content) == pack(content)
    assert control.packed(pack, {"data": 5}) == pack({"data": 5})
