"""Device-memory leases: memory that another process copies for itself while its owner lives.

Memory of a device can't be mapped from the store. A process can open memory of another process (CUDA calls
that IPC), but only while that process lives. So an encoding holds a *number* of the memory. It holds the bytes
only if the rule below asks for them. The process that decodes it gets a *description*. By that, its library
opens the memory, copies it to memory of its own, and closes it:

main worker to cell worker
    The cell asks for the number as it asks for the descriptor of a file, and the main worker
    answers with a pipe in which the description lies. If it can't be opened, the cell asks for
    the bytes (`number + BYTES`) and gets a file of them.
cell worker to main worker
    The cell sends one pipe with all its descriptions before its reply. The frontend keeps it
    until the commit is published, and the main worker until it has adopted the commit. The cell
    worker doesn't exit before both have closed the pipe. So the pipe is the lease: a process
    that dies gives it up.

The rule: a commit holds the bytes of new or changed memory, except
    in the main worker, if a cell waits for the commit: the main worker lives while the cell asks;
    in a cell that has opened memory of the main worker: then the main worker can open the cell's.
The main worker's next idle commit writes memory that was left out or adopted without bytes. If the
main worker dies before that, this memory is lost, and a message names it.

This module knows no library. A library's codec that has such memory (libraries/torch/devices.py)
sets `leases.describe` and `leases.copy_out`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import random
import select
import tempfile
import time
import typing as t

from holdfast.carry import handles

BYTES = 1  # numbers are even
CATALOGUE = (1 << 62) + 1  # the handle of a cell's pipe; above those of files
_LOANS_MAX = 1024  # as many descriptions lie in a pipe for certain
_PIPE_BYTES = 1 << 20

Description = tuple


def new_number() -> int:
    """A new number: random, even, and of 62 bits, as the handles of files are."""
    return 2 * random.SystemRandom().randrange(1, 1 << 61)


class DeviceLeases:
    """The memory that this process leases to others, and the descriptions of what others lease."""

    def __init__(self) -> None:
        self.durable = True  # whether the commit that is being made must hold the bytes
        self.answers = False  # whether this process answers questions for numbers: the main worker
        self.left_out = False  # whether memory without bytes in the store was met
        # The codec of the memory sets these. The first returns the description for a number, or
        # None. The second writes its bytes to a file.
        self.describe: t.Callable[[int], Description | None] = lambda number: None
        self.copy_out: t.Callable[[int, t.BinaryIO], bool] = lambda number, file: False
        self._has_opened = False
        self._lent: dict[int, Description] = {}
        self._arrived: tuple[int, dict[int, Description]] | None = None
        self._pipe: tuple[int, int] | None = None  # read end, write end

    # ---- the rule

    def may_leave_out(self) -> bool:
        """Whether this commit may leave out the bytes of memory that can be lent."""
        return not self.durable and (self.answers or self._has_opened)

    def has_opened(self) -> None:
        """Note that memory of another process was opened here: so it works on this machine."""
        self._has_opened = True

    # ---- the owner

    def answer(self, number: int) -> int | None:
        """A new descriptor for the process that asked for a number: a pipe with the description, or
        a file of the bytes."""
        if number % 2 == BYTES:
            return self._answer_bytes(number - BYTES)
        description = self.describe(number)
        if description is None:
            return None
        reader, writer = os.pipe()
        with open(writer, "wb") as file:
            pickle.dump({number: description}, file)
        return reader

    def _answer_bytes(self, number: int) -> int | None:
        with tempfile.TemporaryFile() as file:
            if not self.copy_out(number, t.cast(t.BinaryIO, file)):
                return None
            file.flush()
            return os.dup(file.fileno())

    def lend(self, number: int) -> bool:
        """Note that memory is handed over without bytes. False if it can't be lent."""
        if number not in self._lent and len(self._lent) == _LOANS_MAX:
            return False
        description = self.describe(number)
        if description is None or not self._open_pipe():
            return False
        self._lent[number] = description
        return True

    def _open_pipe(self) -> bool:
        if self._pipe is None:
            pipe = os.pipe()
            try:
                fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            except (AttributeError, OSError):  # not Linux, or too many pipes
                for fd in pipe:
                    os.close(fd)
                return False
            self._pipe = pipe
        return True

    def hand_over(self) -> int | None:
        """Before the process ends: the pipe with the descriptions, for the process that adopts."""
        if self._pipe is None:
            return None
        reader, writer = self._pipe
        with open(writer, "wb", closefd=False) as file:
            pickle.dump(self._lent, file)
        return reader

    def wait_for_return(self, seconds: float) -> None:
        """Wait until no other process has the pipe open."""
        if self._pipe is None:
            return
        reader, writer = self._pipe
        os.close(reader)
        poll = select.poll()
        poll.register(writer, 0)  # reports an error once no reader is left
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not poll.poll(left * 1000):
            pass

    # ---- the receiver

    def find(self, number: int) -> Description | None:
        """The description of memory that another process lends."""
        arrived = handles.table.peek(CATALOGUE)
        if arrived is not None:
            if self._arrived is None or self._arrived[0] != arrived:
                self._arrived = arrived, _read_all(arrived)
            return self._arrived[1].get(number)
        fd = handles.table.fetch(number) if handles.table.fetch is not None else None
        if fd is None:
            return None
        with contextlib.closing(os.fdopen(fd, "rb")) as file:
            return pickle.load(file).get(number)

    def forget_arrived(self) -> None:
        """Forget the pipe after an adoption: the next one may have the same descriptor."""
        self._arrived = None

    def find_bytes(self, number: int) -> t.BinaryIO | None:
        """A file with the bytes of a number, which the main worker writes."""
        fd = handles.table.fetch(number + BYTES) if handles.table.fetch is not None else None
        return None if fd is None else t.cast(t.BinaryIO, os.fdopen(fd, "rb"))


def _read_all(fd: int) -> dict[int, Description]:
    """The content of a pipe that stays open. It was written before the pipe was sent."""
    parts = []
    while select.select([fd], [], [], 0)[0] and (part := os.read(fd, _PIPE_BYTES)):
        parts.append(part)
    return pickle.loads(b"".join(parts))


leases = DeviceLeases()
