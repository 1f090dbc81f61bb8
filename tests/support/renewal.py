"""A kernel that a test has used becomes another notebook's: what is put back in its main worker, and what stays.

A kernel in which something stays is used no more (conftest.py). What its frontend keeps (the mode of several
cells, arguments, the monitor) is known by the commands that the test ran. Settings of libraries aren't looked at:
a test that changes one says that it needs a fresh kernel, or takes it back.
"""

import ast
import contextlib
import queue
import re
import sys

# Commands whose effect outlives the cell, where it isn't looked at below.
LASTING = re.compile(
    r"%(scorep_python_binding_arguments|enable_vampir|perfmonitor|trace.*--summary|holdfast (history +\d|verify o)"
    r"|load_ext|colors|autoawait|pprint|matplotlib)"
)

# Puts back what is simple to put back, and prints the rest. It has `place`, `begun` and `roots`.
_SOURCE = """
import asyncio, builtins, gc, locale, logging, os, signal, sys, threading

def name(value):
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value))}"

def is_the_users(module):
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not any(map(os.path.abspath(file).startswith, roots))

if begun:
    os.chdir(place)
    sys.path[:] = begun["path"]
    for key in os.environ.keys() - begun["environment"].keys():
        del os.environ[key]
    os.environ.update(begun["environment"])
    for key in [key for key, module in sys.modules.items() if is_the_users(module)]:
        del sys.modules[key]
    signal.signal(signal.SIGALRM, signal.SIG_DFL)

shell, umask = get_ipython(), os.umask(0o77)
os.umask(umask)
found = {
    "path": sys.path, "environment": dict(os.environ), "umask": umask,
    "threads": sorted(thread.name for thread in threading.enumerate()),
    "tasks": len(asyncio.all_tasks()),
    "handlers": [name(signal.getsignal(number)) for number in range(1, 32)],
    "timers": [signal.getitimer(number) for number in range(3)],
    "hooks": list(map(name, (
        sys.excepthook, sys.displayhook, sys.unraisablehook, sys.getprofile(), sys.gettrace()
    ))),
    "limits": [sys.getrecursionlimit(), gc.isenabled(), locale.setlocale(locale.LC_ALL)],
    "builtins": sum(hash((key, name(value))) for key, value in vars(builtins).items() if key.strip("_")),
    "logging": [logging.root.level, len(logging.root.handlers)],
    "shell": [len(shell.events.callbacks["post_run_cell"]), shell.InteractiveTB.mode],
}
if "decimal" in sys.modules:
    found["decimal"] = sys.modules["decimal"].getcontext().prec
print(found)
"""


def begin(kernel):
    """What is in the kernel before a test uses it."""
    return {"decimal": 28} | _run(kernel, begun={})


def renew(kernel, place, begun):
    """Make it another notebook in a directory; what of the former one stays, by the kind of it."""
    for one in kernel.control("list_subshell_request")["content"]["subshell_id"]:
        kernel.control("delete_subshell_request", {"subshell_id": one})
    now = _run(kernel, place=str(place), begun=begun)
    with contextlib.suppress(queue.Empty):  # a question that nobody has answered
        while True:
            kernel.client.get_stdin_msg(timeout=0)
    return {kind: (begun[kind], one) for kind, one in now.items() if one != begun[kind]}


def _run(kernel, **names):
    names["roots"] = [sys.prefix, sys.base_prefix]
    code = f"%reset -f\nexec({_SOURCE!r}, {names!r})"
    outcome = kernel.run(code, timeout=60, store_history=False)
    assert outcome.status == "ok", outcome.content
    kernel.before = outcome.content["execution_count"]
    return ast.literal_eval(outcome.stream())
