"""Lets a Python that a recorded process has started join the recording.

``holdfast.pth``, which Python reads when it starts, calls it. It ignores what multiprocessing
starts for itself: those workers join in another way (holdfast.scorep.children). It also ignores a recording
that the command line asks for.
"""

from __future__ import annotations

import os
import sys


def join() -> None:
    """Join what the environment names, if somebody still records there."""
    text = os.environ.pop("HOLDFAST_RECORDING")
    words = sys.orig_argv[1:]
    code = words[words.index("-c") + 1] if "-c" in words[:-1] else ""
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    if code.startswith("from multiprocessing.") or module in ("holdfast.scorep", "scorep"):
        return
    if "resource_tracker" in module:
        return
    try:
        from holdfast.scorep.children import join_as_told
    except ImportError:  # in a subinterpreter
        return
    join_as_told(text)
