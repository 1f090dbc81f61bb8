"""Ports for a kernel's sockets that stay free until it binds them.

jupyter_client asks the system for any free port, gives it back and starts the kernel. The port is
one of those that outgoing connections get, and where many programs connect, one of them has it by
the time the kernel binds: "Address already in use". These are below that range (32768 on Linux,
49152 elsewhere), and each process begins at a place of its own.
"""

from __future__ import annotations

import itertools
import os
import socket

_FIRST, _COUNT = 10_000, 20_000
_SOCKETS = ("shell", "iopub", "stdin", "control", "hb")
_next = itertools.count(os.getpid() * 1009)


def free_port(ip: str = "127.0.0.1") -> int:
    """One that nobody listens at, and that this process didn't give before."""
    for _ in range(_COUNT):
        port = _FIRST + next(_next) % _COUNT
        with socket.socket() as probe:
            try:
                probe.bind((ip, port))
            except OSError:
                continue
            return port
    raise OSError(f"none of the ports from {_FIRST} to {_FIRST + _COUNT} is free")


def of_kernel() -> dict[str, int | bool]:
    """For a kernel manager: its sockets' ports, and that it asks for no others."""
    return {"cache_ports": False} | {f"{name}_port": free_port() for name in _SOCKETS}
