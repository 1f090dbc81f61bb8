"""The worker's end of the control channel alone: which descriptor belongs to which frame."""

import json
import os
import socket
import struct
import threading

import msgpack
import pytest

from holdfast.worker import control
from holdfast.worker.control import Channel, encode


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    channel = Channel(theirs.detach())
    with ours:
        yield ours, channel
    channel.close()


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
    assert taken(channel, channel.wait_for("handle")) == handle
    (frame,) = channel.poll()
    assert frame["op"] == "debug" and taken(channel, frame) == debug


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


def test_a_frame_in_pieces_has_its_own(ends, tmp_path):
    """Descriptors come with the first byte."""
    ours, channel = ends
    data = encode({"op": "handle", "handle": 1, "found": True, "long": b"x" * 200_000})
    with open(tmp_path / "handle", "w+") as file:
        socket.send_fds(ours, [data[:3]], [file.fileno()])
        wanted = identity(file.fileno())
    assert channel.poll() == []
    for start in range(3, len(data), 60_000):
        ours.sendall(data[start : start + 60_000])
        frames = channel.poll()
    assert taken(channel, frames[0]) == wanted


def test_descriptors_that_did_not_come_are_missed(ends):
    ours, channel = ends
    ours.sendall(encode({"op": "debug"}))
    (frame,) = channel.poll()
    with pytest.raises(ValueError, match="1 descriptors were announced, 0 came"):
        channel.take_descriptors(frame)


def test_frames_say_what_pipes_got_before_them(ends):
    """Counted from what the frontend has read, by its tally; nothing where it has read all."""
    ours, channel = ends
    pipes, tally = [os.pipe(), os.pipe()], os.memfd_create("tally")
    os.pwrite(tally, struct.pack("@I4xQQ", 6, 100, 200), 0)
    channel.watch(os.dup(tally), pipes[0][1], pipes[1][1])
    assert channel.written() is None
    os.write(pipes[0][1], b"abc")
    assert channel.written() == [103, 200]
    os.write(pipes[1][1], b"d")
    channel.send("stream", name="stdout", text="x")
    frame = msgpack.unpackb(ours.recv(1000)[4:])
    assert frame["raw"] == [103, 201]
    os.pwrite(tally, struct.pack("@I4x", 7), 0)  # the frontend reads
    reading = threading.Timer(0.05, os.pwrite, (tally, struct.pack("@I4xQQ", 8, 102, 200), 0))
    reading.start()
    os.read(pipes[0][0], 2)
    assert channel.written() == [103, 201]
    reading.join()
    assert os.read(pipes[0][0], 9) == b"c" and os.read(pipes[1][0], 9) == b"d"
    assert channel.written() is None
    for fd in (tally, *pipes[0], *pipes[1]):
        os.close(fd)


def test_descriptors_that_the_user_closed_are_not_asked(ends):
    _, channel = ends
    pipe, tally = os.pipe(), os.memfd_create("tally")
    os.truncate(tally, 24)
    channel.watch(tally, pipe[1], pipe[1])
    for fd in channel._pipes[1:]:
        os.close(fd)
    os.write(pipe[1], b"x")
    assert channel.written() is None and channel.tally == -1
    os.close(tally)
    for fd in pipe:
        os.close(fd)


def pack(content):
    return json.dumps(content, ensure_ascii=False).encode("utf8", "surrogatepass")


@pytest.mark.parametrize("long", ["x" * 70_000, '<a href="é">\n' * 9_000, "ab\ud800" * 40_000])
def test_content_in_pieces(long):
    """Texts at any place among what is shown; equal ones; none; what can't be escaped."""
    for shown in (
        {"text/plain": long},
        {"a": "1", "text/html": long, "b": {"c": long}, "image/png": long, "d": 'e"f'},
        {"a": "short"},
    ):
        content = {"data": shown, "metadata": {"f": "g"}, "transient": {}}
        made = control.packed(pack, content)
        whole = made if isinstance(made, bytes) else b"".join(made)
        assert whole == pack(content)
    assert control.packed(pack, {"data": 5}) == pack({"data": 5})


def test_large_fields_of_a_frame():
    """What is written in pieces reads as the frame that is packed in one."""
    large = bytes(range(256)) * 300
    for fields in (
        {"op": "message", "content": control.Pieces([b"{", large, b"}"]), "buffers": []},
        {"op": "message", "content": b"{}", "buffers": [memoryview(large), b"small", large]},
        {"op": "reply", "prepared": large, "report": {"seconds": 0.5, "names": ["a"]}},
    ):
        plain = {k: b"".join(v) if isinstance(v, control.Pieces) else v for k, v in fields.items()}
        assert b"".join(control._encode_large(fields)) == control.encode(plain)
    frame = control.text_frame("stream", name="stdout")("ä€\n".encode())
    read = msgpack.unpackb(frame[4:], raw=False)
    assert read == {"op": "stream", "name": "stdout", "text": "ä€\n"}
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_a_kept_frame_travels_with_the_next_one(ends):
    ours, channel = ends
    channel.keep("ended", id=3)
    with pytest.raises(BlockingIOError):
        ours.recv(1, socket.MSG_DONTWAIT)
    channel.send("reply", id=3)
    assert ours.recv(4096) == encode({"id": 3, "op": "ended"}) + encode({"id": 3, "op": "reply"})
    channel.send("ready")
    assert ours.recv(4096) == encode({"op": "ready"})
