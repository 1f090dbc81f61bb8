"""The worker's end of the control channel (docs/control-protocol.md).

A frame is a 4-byte big-endian length and one msgpack map. Three rules hold here:

* A frame goes out whole or not at all. SIGINT may arrive in the middle of a send, and a KeyboardInterrupt
  there would leave half a frame on the wire. So the handler of `interrupt.py` asks `sending` first, and
  raises the interrupt after the frame.
* Any thread may send (a print in a thread is a frame), so sends take a lock. Only the main thread receives.
  Another thread that needs an answer (`input()` in a thread) waits until the main thread passes it on.
* A child that user code forks is not a worker. It would mix its frames with ours, and its copy of the
  descriptor would hide our death from the frontend. So the child closes the channel at once. What it prints
  goes to its descriptors 1 and 2, which the frontend reads.

The descriptor stays blocking, because sends wait for a slow frontend. Receives that must not wait pass
MSG_DONTWAIT.
"""

from __future__ import annotations

import array
import collections
import contextlib
import fcntl
import mmap
import os
import select
import socket
import struct
import threading
import typing as t

import msgpack

from holdfast import _store

_HEAD = struct.Struct(">I")
_LENGTH_MAX = 2**31 - 1
_ANCILLARY_SIZE = socket.CMSG_SPACE(8 * 4)  # eight descriptors
_SIGNAL_SECONDS = 0.1
_RECEIVE_SIZE = 1 << 16
_LARGE = 1 << 16  # bytes or characters that are not copied into a frame
_TALLY_SIZE = 24  # hfi_tally
_DESCRIPTORS = "descriptors"  # key of a received frame; none that is sent has it
# By op: how many descriptors come with a frame, or -1; whether it may change the notebook.
VERSION, _FRAMES = _store._control_protocol()

Frame = dict[str, t.Any]


class ChannelClosed(Exception):
    """The frontend closed its end, or this process is a forked child of a worker."""


def _announced(frame: Frame) -> int:
    """How many descriptors come with a frame."""
    count, _ = _FRAMES.get(frame.get("op", ""), (0, True))
    return count if count >= 0 else int(bool(frame.get("found")))


def changes_nothing(frame: Frame) -> bool:
    """Whether the notebook is the same after a frame; a commit looks itself."""
    _, changes = _FRAMES.get(frame.get("op", ""), (0, True))
    return not changes


def _checked(length: int) -> int:
    if length > _LENGTH_MAX:
        raise ValueError(f"a frame of {length} bytes is longer than the channel allows")
    return length


def encode(frame: Frame) -> bytes:
    """Return one frame as the bytes that are sent."""
    body = msgpack.packb(frame, use_bin_type=True)
    return _HEAD.pack(_checked(len(body))) + body


class Pieces(list):  # of bytes and memoryviews
    """Bytes in pieces, which are written one after the other and never put together."""


def _size(value: t.Any) -> int:
    """Of what is sent as bytes; 0 of anything else."""
    if isinstance(value, Pieces):
        return sum(map(_size, value))
    if isinstance(value, memoryview):
        return value.nbytes
    return len(value) if isinstance(value, (bytes, bytearray)) else 0


def _is_large(value: t.Any) -> bool:
    if isinstance(value, list) and not isinstance(value, Pieces):
        return any(map(_is_large, value))
    return _size(value) >= _LARGE


def _put(value: t.Any, pieces: list[t.Any]) -> None:
    """Add an encoded value: pictures and texts of megabytes as they are, the rest packed."""
    if isinstance(value, Pieces) or (not isinstance(value, list) and _is_large(value)):
        pieces.append(b"\xc6" + _HEAD.pack(_checked(_size(value))))
        pieces.extend(value if isinstance(value, Pieces) else (value,))
    elif isinstance(value, list) and _is_large(value):
        pieces.append(msgpack.Packer().pack_array_header(len(value)))
        for each in value:
            _put(each, pieces)
    else:
        pieces.append(msgpack.packb(value, use_bin_type=True))


def _encode_large(frame: Frame) -> list[t.Any]:
    """One frame as what is sent one after the other; the large ones of it aren't copied."""
    pieces: list[t.Any] = [msgpack.Packer().pack_map_header(len(frame))]
    for key, value in frame.items():
        pieces.append(msgpack.packb(key))
        _put(value, pieces)
    joined: list[t.Any] = [bytearray(_HEAD.size)]
    for piece in pieces:
        if _is_large(piece):
            joined += piece, bytearray()
        else:
            joined[-1] += piece
    _HEAD.pack_into(joined[0], 0, _checked(sum(map(_size, joined)) - _HEAD.size))
    return joined


def text_frame(op: str, **fields: str) -> t.Callable[[bytes], bytes]:
    """A function that makes frames of these fields and a `text` that differs: a loop may print a
    million."""
    body = msgpack.Packer().pack_map_header(len(fields) + 2)
    for word in ("op", op, *(word for pair in fields.items() for word in pair), "text"):
        body += msgpack.packb(word)
    body += b"\xdb"  # a string with a length of four bytes
    head = struct.Struct(f">I{len(body)}sI")
    size = head.size - _HEAD.size

    def frame(text: bytes) -> bytes:
        return head.pack(_checked(size + len(text)), body, len(text)) + text

    return frame


class Channel:
    """One Unix stream socket that carries frames, and descriptors with them."""

    def __init__(self, fd: int):
        os.set_inheritable(fd, False)
        self._socket: socket.socket | None = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._send_lock = threading.RLock()
        self._kept = b""  # frames that travel with the next one
        self._received = bytearray()
        self._frames: collections.deque[Frame] = collections.deque()
        self._descriptors: list[int] = []
        self._pipes: tuple[int, ...] = ()
        self._ended = False
        self.sending = 0  # main thread inside send(): see interrupt.py
        self.after_send: t.Callable[[], None] | None = None
        self._main = threading.main_thread().ident

    # ---- state

    def fileno(self) -> int:
        if self._socket is None:
            raise ChannelClosed("the control channel is closed")
        return self._socket.fileno()

    @property
    def open(self) -> bool:
        return self._socket is not None

    def close(self) -> None:
        """Close this process's end; safe to call again."""
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()
        self._forget_pipes()

    def abandon(self) -> None:
        """In a forked child: leave the channel to the parent."""
        self._send_lock = threading.RLock()
        self._kept = b""
        self.after_send = None
        self.sending = 0
        self.close()

    def begin_anew(self) -> None:
        """In a fork whose descriptor is the end of another channel: nothing of the old one's."""
        for fd in self._descriptors:
            os.close(fd)
        self._descriptors.clear()
        self._frames.clear()
        self._received.clear()
        self._ended = False
        self._kept = b""
        self._send_lock = threading.RLock()
        self.sending = 0
        self._main = threading.main_thread().ident
        self._forget_pipes()

    # ---- what is written to the pipes beside

    def watch(self, tally: int, first: int, second: int) -> None:
        """Say with each frame how much had been written to these pipes by then.

        Parameters
        ----------
        tally
            Descriptor of what the frontend has read of them (hfi_tally); it is ours from now on.
        first, second
            The pipes. Copied: the user may point 1 and 2 elsewhere.
        """
        self._forget_pipes()
        pipes = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (first, second))
        self._pipes = (tally, *pipes)
        self._tally = mmap.mmap(tally, _TALLY_SIZE, prot=mmap.PROT_READ)

    @property
    def tally(self) -> int:
        """Its descriptor; -1 if nothing is watched."""
        return self._pipes[0] if self._pipes else -1

    def written(self) -> list[int] | None:
        """Bytes that were ever written to each pipe; None if the frontend has read all."""
        if not self._pipes:
            return None
        try:
            return _store._pipes_written(self._tally, *self._pipes[1:])
        except OSError:  # the user closed everything
            self._pipes = ()
            return None

    def _forget_pipes(self) -> None:
        pipes, self._pipes = self._pipes, ()
        for fd in pipes:
            os.close(fd)

    # ---- sending

    def send_handle(self, number: int, fd: int | None) -> None:
        """Send a `handle` frame and its descriptor, which stays the caller's."""
        frame = encode({"op": "handle", "handle": number, "found": fd is not None})
        self.send_bytes(frame, () if fd is None else (fd,))

    def send(self, op: str, **fields: t.Any) -> None:
        """Send one frame; waits while the frontend is slow.

        Raises
        ------
        ChannelClosed
            The frontend is gone, or this is a forked child.
        """
        fields["op"] = op
        written = self.written()
        if written is not None:
            fields["raw"] = written
        if any(map(_is_large, fields.values())):
            first, *rest = _encode_large(fields)
            self.send_bytes(first, rest=rest)
        else:
            self.send_bytes(encode(fields))

    def keep(self, op: str, **fields: t.Any) -> None:
        """As `send`, of a small frame that travels with the next one: one system call for both,
        and the frontend wakes up once. For who sends another one at once."""
        fields["op"] = op
        written = self.written()
        if written is not None:
            fields["raw"] = written
        with self._send_lock:
            self._kept += encode(fields)

    def send_bytes(
        self, data: bytes, fds: t.Sequence[int] = (), rest: t.Iterable[bytes] = ()
    ) -> None:
        """Send an encoded frame, with descriptors at its first byte, and the `rest` of it."""
        main = threading.get_ident() == self._main
        if main:
            self.sending += 1
        try:
            with self._send_lock:
                if self._socket is None:
                    raise ChannelClosed("the control channel is closed")
                data, self._kept = self._kept + data, b""
                if fds:
                    sent = socket.send_fds(self._socket, [data], fds)
                    data = data[sent:]
                self._socket.sendall(data)
                for piece in rest:
                    self._socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the frontend is gone") from error
        finally:
            if main:
                self.sending -= 1
                if not self.sending and self.after_send is not None:
                    self.after_send()

    # ---- receiving

    def _fill(self, wait: bool) -> bool:
        """Read what is there; False when nothing was, and on end of file `_ended` is set."""
        sock = self._socket
        if sock is None:
            raise ChannelClosed("the control channel is closed")
        flags = 0 if wait else socket.MSG_DONTWAIT
        try:
            # Not socket.recv_fds: it ignores its flags.
            data, ancillary, _, _ = sock.recvmsg(_RECEIVE_SIZE, _ANCILLARY_SIZE, flags)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data, ancillary = b"", []
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
                self._descriptors.extend(descriptors)
        if not data:
            self._ended = True
            return False
        self._received += data
        self._split()
        return True

    def _split(self) -> None:
        start, received = 0, self._received
        while len(received) - start >= _HEAD.size:
            (length,) = _HEAD.unpack_from(received, start)
            end = start + _HEAD.size + length
            if len(received) < end:
                break
            body = bytes(memoryview(received)[start + _HEAD.size : end])
            frame = msgpack.unpackb(body, raw=False, strict_map_key=False)
            if isinstance(frame, dict):
                count = _announced(frame)
                if count:
                    # They came with its first byte. Frames aren't handled in their order: a cell
                    # that waits for a file leaves a debugger's socket, which came before, alone.
                    frame[_DESCRIPTORS] = self._descriptors[:count]
                    del self._descriptors[:count]
                self._frames.append(frame)
            start = end
        if start:
            del received[:start]

    def await_end(self) -> None:
        """Read until the frontend closes the channel: a prepared commit is published while its
        process lives."""
        with contextlib.suppress(ChannelClosed):
            while True:
                self.receive()

    def poll(self) -> list[Frame]:
        """Return every frame that has arrived, without waiting.

        Raises
        ------
        ChannelClosed
            End of file, and no frame is left.
        """
        while not self._ended and self._fill(wait=False):
            pass
        frames = list(self._frames)
        self._frames.clear()
        if not frames and self._ended:
            raise ChannelClosed("the frontend closed the control channel")
        return frames

    def receive(self) -> Frame:
        """Wait for the next frame."""
        return self.wait_for(None)

    def wait_for(self, op: str | None) -> Frame:
        """Wait for a frame of this kind; others stay for `poll`, in their order.

        Interruptible: a signal handler that raises ends the wait.
        """
        while True:
            for index, frame in enumerate(self._frames):
                if op is None or frame.get("op") == op:
                    del self._frames[index]
                    return frame
            if self._ended:
                raise ChannelClosed("the frontend closed the control channel")
            # Not for ever: a signal between the interpreter's last look and the system call
            # would be handled only when that returns.
            select.select([self.fileno()], [], [], _SIGNAL_SECONDS)
            self._fill(wait=False)

    def take_descriptors(self, frame: Frame) -> list[int]:
        """Return the descriptors that came with a frame; the caller owns them."""
        taken = frame.pop(_DESCRIPTORS, [])
        if len(taken) != _announced(frame):
            raise ValueError(f"{_announced(frame)} descriptors were announced, {len(taken)} came")
        for fd in taken:
            os.set_inheritable(fd, False)
        return taken

    @property
    def pending(self) -> bool:
        """Whether `poll` would return a frame that was already read."""
        return bool(self._frames) or self._ended


# ---- a message's content, in pieces ---------------------------------------------------------


def packed(pack: t.Callable[[t.Any], bytes], content: t.Any) -> bytes | Pieces:
    """The bytes of a message's content, which `pack` makes of anything.

    The text may have megabytes: a picture, a page with an interactive plot. Such a text is escaped
    by C code of ours (json_text.c) and is sent in a piece of its own, so that it is copied once on
    its way to the frontend. All else is as `pack` has it: it is given a mark in the text's place.
    """
    shown = content.get("data") if isinstance(content, dict) else None
    if not isinstance(shown, dict):
        return pack(content)
    large = {k: v for k, v in shown.items() if type(v) is str and len(v) >= _LARGE}
    try:
        texts = [_store._json_text(text) for text in large.values()]
    except UnicodeEncodeError:
        texts = []
    if not texts:
        return pack(content)
    mark = os.urandom(16).hex()
    left = pack({**content, "data": {**shown, **dict.fromkeys(large, mark)}})
    pieces = Pieces()
    for text in texts:
        before, left = left.split(b'"%s"' % mark.encode(), 1)
        pieces += before, text
    pieces.append(left)
    return pieces
