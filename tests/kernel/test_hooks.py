"""Hooks of the process that the notebook sets, and the ones that were there before."""

import effort
import pytest

HEADS = {run: f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated")}
# What sets the hook, and what calls it without its name.
HOOKS = {
    "warnings": (
        "warnings.showwarning = lambda m, *a, **k: shown.append(str(m))",
        "warnings.warn('seen')",
    ),
    "unraisable": (
        "sys.unraisablehook = lambda error: shown.append(str(error.exc_value))",
        "type('Raising', (), {'__del__': lambda self: int('seen')})(); None",
    ),
    "threads": (
        "threading.excepthook = lambda error: shown.append(str(error.exc_value))",
        "threading.Thread(target=int, args=('seen',)).start(); None",
    ),
    "signals": (
        "signal.signal(signal.SIGUSR1, lambda *a: shown.append('seen')); None",
        "signal.raise_signal(signal.SIGUSR1)",
    ),
}


@pytest.mark.parametrize(("hook", "run"), effort.in_turn(HOOKS, HEADS))
def test_what_a_hook_changes_is_seen(shared_kernel, hook, run):
    make, call = HOOKS[hook]
    for code in (
        "import signal, sys, threading, warnings\nshown = []",
        HEADS[run] + make,
        call,
        HEADS[run] + "seen = len(shown), 'seen' in shown[0]",
    ):
        assert shared_kernel.run(code).status == "ok", code
    assert shared_kernel.run("seen, len(shown)").result == "((1, True), 1)"


@pytest.mark.parametrize(("name", "run"), effort.in_turn(["stdout", "stderr"], HEADS))
def test_a_stream_that_was_replaced_comes_back(shared_kernel, name, run):
    code = f"import io, sys; old = sys.{name}; sys.{name} = io.StringIO(); saved = {{}}"
    assert shared_kernel.run(HEADS[run] + code).status == "ok"
    outcome = shared_kernel.run(f"kept, sys.{name} = sys.{name}, old\nprint('back', file=old)")
    assert outcome.stream(name) == "back\n"


@pytest.mark.parametrize("run", HEADS)
def test_hooks_that_were_there_are_kept(shared_kernel, run):
    code = (
        "import builtins, signal, sys\nold = signal.getsignal(signal.SIGINT), input, sys.excepthook"
    )
    assert shared_kernel.run(HEADS[run] + code).stream("stderr") == ""
    now = "old == (signal.getsignal(signal.SIGINT), input, sys.excepthook)"
    assert shared_kernel.run(now).result == "True"
