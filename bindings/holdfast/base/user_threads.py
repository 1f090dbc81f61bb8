"""Says which threads of a process run code of the user's.

A service thread runs none: IPython's writer of the history, and our own threads. These have an attribute
`runs_user_code` that is false, of some only while they wait.
"""

import sys
import threading

_SERVICE_THREADS = {"HistorySavingThread", "IPythonHistorySavingThread"}


def is_service(thread: threading.Thread) -> bool:
    if type(thread).__name__ in _SERVICE_THREADS or thread.name in _SERVICE_THREADS:
        return True
    return not getattr(thread, "runs_user_code", True)


def alone() -> bool:
    """Whether no other Python thread can run code of the user's now."""
    threads = threading.enumerate()
    users = [thread for thread in threads if not is_service(thread)]
    # Threads that weren't started by `threading` are in no list, but have a frame.
    services = len(threads) - len(users)
    return len(users) == 1 and len(sys._current_frames()) - services == 1
