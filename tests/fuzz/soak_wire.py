"""Junk on every socket of a real kernel, by a fixed sequence of draws; between two pieces of it
the kernel must answer a client as always.

    python tests/fuzz/soak_wire.py [--rounds 10000] [--seed 1] [--curve]

Raw connections say things that are no ZMTP, or are ZMTP up to somewhere: a greeting that stops,
frames that announce more than comes, a multipart without end. Sockets of ZeroMQ send multiparts
that are no messages, and messages with something wrong: a part missing or too many, JSON that is
none or is nested deeply, a signature that is short, long, of another key, or used before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import struct
import sys
from pathlib import Path

import zmq

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")
# ZMTP 3.0: signature, version, mechanism NULL, not a server, filler.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
KINDS = {"iopub": zmq.SUB, "hb": zmq.REQ}


def ready(kind: str) -> bytes:
    """The command READY of a client."""
    body = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind.encode()
    return b"\x04" + bytes([len(body)]) + body


def frame(data: bytes, more: bool = False) -> bytes:
    return bytes([2 | more]) + struct.pack(">Q", len(data)) + data


class Junk:
    """Draws pieces of junk, and throws them."""

    def __init__(self, seed: int, ports: dict[str, int], session, curve: bytes | None = None):
        self.draw = random.Random(seed)
        self.ports, self.session, self.curve = ports, session, curve
        self.context = zmq.Context()

    # ---- raw connections

    def raw(self) -> bytes:
        draw = self.draw
        kind = draw.choice(["DEALER", "REQ", "SUB", "PAIR", "x" * 200, ""])
        hello = GREETING + ready(kind)
        return draw.choice(
            (
                lambda: draw.randbytes(draw.randrange(2000)),
                lambda: GREETING[: draw.randrange(len(GREETING))],
                lambda: GREETING + draw.randbytes(draw.randrange(200)),
                lambda: b"GET / HTTP/1.1\r\n\r\n" * 10,
                lambda: (
                    hello + b"\x02" + struct.pack(">Q", draw.choice([1 << 31, 1 << 40, 2**64 - 1]))
                ),
                lambda: hello + frame(b"<IDS|MSG>", more=True) * draw.randrange(1, 20_000),
                lambda: (
                    hello + frame(draw.randbytes(draw.randrange(500)))[: draw.randrange(1, 400)]
                ),
                lambda: hello + b"\x01" * draw.randrange(1000),
            )
        )()

    def throw_raw(self, channel: str) -> None:
        with socket.create_connection(("127.0.0.1", self.ports[channel]), timeout=60) as one:
            one.settimeout(0.3)  # where nobody reads on, the rest is never sent
            try:
                one.sendall(self.raw())
                if self.draw.random() < 0.5:
                    one.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it was thrown out

    # ---- multiparts

    def request(self) -> list[bytes]:
        """The parts of a sound request, from the delimiter on."""
        kind = self.draw.choice(["kernel_info_request", "input_reply", "no_such_request"])
        return self.session.serialize(self.session.msg(kind, {"value": "x"}))

    def multipart(self) -> list[bytes]:
        draw, parts = self.draw, self.request()
        at = draw.randrange(len(parts))
        nested = b'{"a":' * 5000 + b"}" * 5000

        def signed(header: bytes = b"{}", content: bytes = b"{}") -> list[bytes]:
            four = [header, b"{}", b"{}", content]
            return [b"<IDS|MSG>", self.session.sign(four), *four]

        return draw.choice(
            (
                lambda: [draw.randbytes(draw.randrange(100)) for _ in range(draw.randrange(1, 12))],
                lambda: parts[:at] + parts[at + 1 :],
                lambda: parts[:1] + [b"0" * draw.choice([0, 1, 63, 64, 65, 10_000])] + parts[2:],
                lambda: parts[:at] + [draw.randbytes(draw.randrange(300))] + parts[at + 1 :],
                lambda: [b"x"] * draw.choice([4090, 4097, 9000]),
                lambda: [b"id"] * 20 + parts[:1] * 3,
                lambda: signed(),
                lambda: signed(b"[]"),
                lambda: signed(b"\xff\xfe{"),
                lambda: signed(b'{"msg_id": 1, "msg_type": []}'),
                lambda: signed(nested, nested),
                lambda: signed(json.dumps({"msg_id": "a", "msg_type": "t" * 70_000}).encode()),
                lambda: signed(
                    json.dumps({"msg_id": "a", "msg_type": "execute_request"}).encode(), nested
                ),
                lambda: signed(
                    json.dumps(
                        {"msg_id": "a", "msg_type": "complete_request", "subshell_id": 7}
                    ).encode()
                ),
                lambda: parts + [b""] * draw.randrange(100),
            )
        )()

    def throw_multipart(self, channel: str) -> None:
        with self.context.socket(KINDS.get(channel, zmq.DEALER)) as one:
            one.linger, one.sndtimeo = 200, 200
            if self.curve is not None:
                one.curve_publickey, one.curve_secretkey = zmq.curve_keypair()
                one.curve_serverkey = self.curve
            one.connect(f"tcp://127.0.0.1:{self.ports[channel]}")
            if channel == "iopub":
                one.subscribe(self.draw.randbytes(self.draw.randrange(300)))
                one.poll(20)
                return
            parts = self.multipart()
            try:
                for _ in range(self.draw.choice([1, 1, 3])):  # replays
                    one.send_multipart(parts)
            except zmq.ZMQError:
                pass  # REQ has its order

    def throw(self) -> None:
        channel = self.draw.choice(CHANNELS)
        self.draw.choice([self.throw_raw, self.throw_multipart])(channel)


def soak(notebook, rounds: int, seed: int, every: int = 20) -> dict[str, int]:
    """Throw so many pieces; the figures before and after, of the kernel's process."""
    info = notebook.manager.get_connection_info()
    ports = {name: info[f"{name}_port"] for name in CHANNELS}
    curve = getattr(notebook.manager, "curve_publickey", None)
    junk = Junk(seed, ports, notebook.client.session.clone(), curve)
    figures = {"descriptors": descriptors(notebook.pid), "bytes": resident(notebook.pid)}
    for number in range(rounds):
        junk.throw()
        if number % every == every - 1:
            outcome = notebook.run(f"{number} + 1")
            if outcome.status == "aborted":  # an error among the junk dropped what was queued
                outcome = notebook.run(f"{number} + 1")
            where = f"after round {number} of seed {seed}: {outcome.content}"
            assert outcome.result == str(number + 1), where
    junk.context.term()
    assert notebook.run("6 * 7").result == "42"
    assert notebook.run("input()", answers=["still"]).result == "'still'"
    figures["descriptors_after"] = descriptors(notebook.pid)
    figures["bytes_after"] = resident(notebook.pid)
    return figures


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--curve", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from jupyter_client.manager import KernelManager

    from tests.conftest import Notebook

    manager = KernelManager(kernel_name="holdfast")
    manager.transport_encryption = "required" if options.curve else "disabled"
    manager.start_kernel()
    notebook = Notebook(manager)
    try:
        print(soak(notebook, options.rounds, options.seed))
    finally:
        notebook.close()


if __name__ == "__main__":
    main()
