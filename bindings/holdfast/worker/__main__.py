"""Starts the fork server (fork_server.py), or starts a cell's worker anew (restarted.py).

`python -m` puts the working directory first on sys.path. A user's `random.py` must not shadow the standard
library while the worker's own modules load. So the directory is removed before anything is imported. The
application puts '' back for the user's imports.
"""

import sys

if sys.path and sys.path[0] != "" and not sys.flags.safe_path:
    del sys.path[0]

if "--request-fd" in sys.argv:  # see restarted.py
    import ctypes

    ctypes.CDLL(None).SCOREP_User_DisableRecording()

import gc  # noqa: E402

gc.disable()  # all that is imported stays: see fork_server.py

import argparse  # noqa: E402
import os  # noqa: E402
from importlib.util import find_spec  # noqa: E402
from pathlib import Path  # noqa: E402


def serve_request(control_fd: int, session_fd: int, request_fd: int) -> None:
    """Run one cell, for which a standby executed Python again: see restarted.py."""
    from holdfast.worker import restarted

    frame = restarted.request(request_fd)
    from holdfast.worker import fork_server

    fork_server.import_own()
    fork_server.import_rest()
    gc.enable()
    from holdfast._store import Session
    from holdfast.worker.cell import Cell

    channel = restarted.own_channel(control_fd, frame.pop("tally", -1))
    session = None
    if session_fd >= 0:
        session = Session.from_fd(session_fd)
        os.close(session_fd)  # the session has its own
    Cell(channel, session, frame).run()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="holdfast.worker")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--session-fd", type=int, default=-1)
    parser.add_argument("--request-fd", type=int, default=-1)
    options = parser.parse_args()
    # The name that libraries know, and none of the arguments.
    sys.argv[:] = [str(Path(find_spec("ipykernel").origin).parents[1] / "ipykernel_launcher.py")]

    if options.request_fd >= 0:
        serve_request(options.control_fd, options.session_fd, options.request_fd)
        return
    from holdfast.worker.fork_server import ForkServer

    ForkServer(options.control_fd, options.session_fd).serve()


if __name__ == "__main__":
    main()
