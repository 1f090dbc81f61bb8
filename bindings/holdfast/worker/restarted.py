"""Starts a cell's process anew, with Score-P loaded before everything else.

Score-P's adapters for MPI and for files stand between a program and its libraries, so the dynamic linker must
load them first. A standby is a fork of the fork server, which has none of them. If a cell's options ask for
such an adapter, its standby executes Python again in the same process. Its number, its parent, its control
channel and its pipes stay. The frontend notices nothing but the time, that of a start of Python with IPython.
The cell's request is passed on in a file in memory.

Score-P measures from the process's start, but what IPython does until the cell is ready isn't the user's.
`__main__` switches recording off before it imports anything, and `loading.load` switches it on. Score-P has a
setting to start without recording, but its profile then stops with an error.
"""

from __future__ import annotations

import os
import signal
import sys
import typing as t

import msgpack

from holdfast.scorep import loading

from .control import Channel, Frame


def restart(frame: Frame, channel: Channel, session: t.Any) -> None:
    """Execute Python again for this request. Returns only if that is impossible."""
    request = os.memfd_create("request", 0)
    frame["tally"] = channel.tally
    os.write(request, msgpack.packb(frame))
    descriptors = {"control": channel.fileno(), "request": request}
    if session is not None:
        # Of its own, since closing a session closes its descriptor.
        descriptors["session"] = os.dup(session.fd)
        session.close()
    for descriptor in (*descriptors.values(), channel.tally):
        if descriptor >= 0:
            os.set_inheritable(descriptor, True)
    arguments = sys.orig_argv[: sys.orig_argv.index("--control-fd")]
    for name, descriptor in descriptors.items():
        arguments += [f"--{name}-fd", str(descriptor)]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as before the worker had its own handler
    loading.restart(os.environ)
    os.execv(sys.executable, arguments)


def request(request_fd: int) -> Frame:
    """In the new process: the request that it was started for."""
    loading.restarted(os.environ, paused=True)
    with open(request_fd, "rb") as file:
        file.seek(0)
        return msgpack.unpackb(file.read(), raw=False, strict_map_key=False)


def own_channel(control_fd: int, tally: int) -> Channel:
    """In the new process: what it had before, which its children don't inherit."""
    channel = Channel(control_fd)
    if tally >= 0:
        os.set_inheritable(tally, False)
        channel.watch(tally, 1, 2)
    return channel
