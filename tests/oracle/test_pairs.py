"""Whatever one function of a module sets and another one reads has a notebook in notebooks/pairs.txt.

The pairs are derived from the names in the standard library, NumPy, pandas, PyTorch and Arrow: one that a new
version adds fails here until a notebook calls it, or has a reason why there is nothing to carry.
"""

import contextlib
import importlib
import io
import re
import sys
import warnings
from pathlib import Path

import effort

NOTEBOOKS = Path(__file__).parent / "notebooks" / "pairs.txt"
LIBRARIES = [
    "numpy", "numpy.random", "pandas", "torch", "torch.autograd", "torch.hub", "torch.multiprocessing",
    "torch.random", "torch.serialization", "pyarrow",
]  # fmt: skip
NOT_IMPORTED = set("antigravity this idlelib turtledemo lib2to3 test tkinter turtle".split())
GETTERS = ("get_{}", "get{}", "is_{}", "is_{}_enabled", "are_{}_enabled", "{}", "{}_enabled")

# A reason, and what it is true of.
NOTHING_TO_CARRY = {
    "it sets something of an object, which is carried as such": """
        builtins.setattr operator.setitem os.set_blocking os.set_inheritable os.setxattr""",
    "users, groups and sessions of the process, which a fork has as well": """
        os.setegid os.seteuid os.setgid os.setgroups os.setpgid os.setpgrp os.setregid os.setresgid
        os.setresuid os.setsid os.setuid""",
    "a terminal's, which a worker hasn't": """
        curses.set_escdelay curses.set_tabsize curses.setsyx readline.set_completer
        readline.set_completer_delims readline.set_history_length""",
    "another name of one that has a notebook": """
        torch.multiprocessing.set_start_method torch.random.set_rng_state""",
    "an older name, or of a device that no tensor is made on here": """
        torch.set_autocast_cpu_dtype torch.set_autocast_cpu_enabled torch.set_autocast_gpu_dtype
        torch.set_autocast_ipu_dtype torch.set_autocast_ipu_enabled torch.set_autocast_xla_dtype
        torch.set_autocast_xla_enabled""",
    "what waits for children, which stay in their process": "asyncio.set_child_watcher",
    "the loop is the worker's own": "asyncio.set_event_loop",
    "the machine's": "socket.sethostname",
    "it is named, and not carried (docs/not-carried.md)": """
        logging.setLogRecordFactory logging.setLoggerClass threading.setprofile threading.settrace""",
}


def derived(modules):
    """Each function that sets something which another one of its module reads."""
    for name in modules:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = importlib.import_module(name)
            except ImportError:  # of another system, or not installed
                continue
        for setter in filter(lambda one: one.startswith("set"), vars(module)):
            stem = setter.removeprefix("set").removeprefix("_")
            getters = {form.format(stem) for form in GETTERS} if stem else ()
            if _functions(module, getters) and _functions(module, [setter]):
                yield f"{name}.{setter}"


def _functions(module, names):
    found = [getattr(module, name, None) for name in names]
    return [one for one in found if callable(one) and not isinstance(one, type)]


def test_each_pair_has_a_notebook():
    names = sorted(name for name in sys.stdlib_module_names - NOT_IMPORTED if name[0] != "_")
    names.remove("posix")  # the same as os
    if effort.IS_LONG:  # importing PyTorch takes seconds
        names += LIBRARIES
    found = set(derived(names))
    called = set(re.findall(r"[\w.]+(?=\()", NOTEBOOKS.read_text(encoding="utf-8")))
    excused = {name for names in NOTHING_TO_CARRY.values() for name in names.split()}
    assert len(found) > 40
    assert found - called - excused == set()
