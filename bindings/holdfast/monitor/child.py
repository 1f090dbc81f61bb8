"""Runs the sampler as a child process, for a Python that has no Holdfast frontend.

The program holdfast-monitor is started once, when the monitor is first used. monitor/monitor_program.c describes the
messages on its socket. It reads this process from outside, so code that holds the interpreter for minutes is sampled
on time. It ends with the socket, and with this process.
"""

from __future__ import annotations

import array
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

from holdfast.base.usage import word

from .source import MonitorError

_NUMBERS = 13  # of a word
_QUESTION = struct.Struct(f"=IIq{_NUMBERS}q")
_ANSWER = struct.Struct("=iI")
_ACTIONS = {"open": 0, "start": 1, "stop": 2, "begin": 3, "end": 4, "weigh": 5}
_OUTCOMES = {"ok": 1, "error": 2, "interrupted": 3}
_SOURCE_MAX = 1 << 16
_PATIENCE = 10.0  # seconds for an answer, which takes microseconds


def _program() -> str:
    """Return the program's path: beside the interpreter, as pip installs it, or on PATH."""
    beside = Path(sys.executable).parent / "holdfast-monitor"
    found = str(beside) if beside.exists() else shutil.which("holdfast-monitor")
    if found is None:
        raise MonitorError("the program holdfast-monitor is not installed")
    return found


def _word() -> list[int]:
    """This moment, as numbers."""
    said = word()
    counts = [int(line.split()[1]) for line in said["io"].splitlines()[:6]]
    now = [said[name] for name in ("time_ns", "cpu_ns", "children_ns")]
    memory = [int(said.get(name, 0)) for name in ("memory", "peak", "unused", "childless")]
    return [*now, *counts, *(0,) * (6 - len(counts)), *memory]


class Child:
    """The child process that samples in kernels other than ours: a `source.Control`.

    Attributes
    ----------
    counts_cells : bool
        Always False: the caller reports cells.
    """

    counts_cells = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen([_program(), str(os.getpid())], stdin=theirs.fileno())
        ours.settimeout(_PATIENCE)
        self._socket = ours

    @property
    def pid(self) -> int:
        """The process that samples.

        Returns
        -------
        int
            Its number.
        """
        return self._process.pid

    def ask(self, action: str, **fields: t.Any) -> int | None:
        """Do what is asked: see `source.Control.ask`.

        Parameters
        ----------
        action : {"open", "start", "stop", "begin", "end"}
            What to do.
        **fields : object
            The arguments of the action.

        Returns
        -------
        int or None
            A new descriptor of the samples after "open", otherwise None.

        Raises
        ------
        MonitorError
            The child process has ended, or it refuses.
        """
        if fields.get("weigh"):
            action = "weigh"
        text = str(fields.get("source", "")).encode("utf-8", "replace")[:_SOURCE_MAX]
        number = fields.get("interval_ns", fields.get("number", 0))
        if action == "end":
            number = _OUTCOMES.get(fields["outcome"], 1)
        now = _word() if action in ("begin", "end") else (0,) * _NUMBERS
        head = _QUESTION.pack(_ACTIONS[action], len(text), number, *now)
        try:
            with self._lock:
                self._socket.sendall(head + text)
                return self._answer()
        except OSError as error:
            raise MonitorError(f"the monitor's process has ended ({error})") from None

    def _answer(self) -> int | None:
        data, ancillary, _, _ = self._socket.recvmsg(_ANSWER.size, socket.CMSG_SPACE(4))
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[:4])
        data += self._receive(_ANSWER.size - len(data))
        status, size = _ANSWER.unpack(data)
        trouble = self._receive(size).decode("utf-8", "replace")
        if status != 0:
            raise MonitorError(trouble)
        return fds[0] if fds else None

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("end of its socket")
            data += piece
        return data

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()
