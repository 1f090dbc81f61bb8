"""ZMQInteractiveShell with two additions that an instrumented cell needs.

*Recording.* With a recorder set, events are on exactly while the cell's compiled code runs:
not while IPython transforms, compiles, or formats a traceback. IPython's run_code does those
last things around the `exec` call, so it can't be wrapped from outside without recording them; a
cell worker's shell therefore has its own. The value of the last expression is formatted and
displayed after the events are off.

*Exceptions in other words.* A NameError for a name that couldn't be carried into this process
becomes a NotCarriedError, and a CancelledError that SIGINT caused becomes the
KeyboardInterrupt that it stands for. Both keep their traceback.

The class is called ZMQInteractiveShell, because libraries compare the name.
"""

from __future__ import annotations

import asyncio
import sys
import typing as t

from ipykernel import zmqshell
from traitlets import Any


class Recorder(t.Protocol):
    """What the shell needs of a recorder: see holdfast._recorder."""

    def enable(self) -> None: ...

    def disable(self) -> None: ...


class ZMQInteractiveShell(zmqshell.ZMQInteractiveShell):
    """The shell of a worker."""

    recorder = Any()  # Recorder, None where nothing is recorded
    rewrite_exception = Any()  # exception -> exception that the user sees

    _last_seen: tuple[t.Any, t.Any] = (None, None)

    def _get_exc_info(self, exc_tuple=None):
        etype, value, tb = super()._get_exc_info(exc_tuple)
        seen = self.seen_as(value)
        if seen is not value:
            etype, value = type(seen), seen
            # %tb and post-mortem debugging look here.
            sys.last_type, sys.last_value, sys.last_traceback = etype, value, tb
            if hasattr(sys, "last_exc"):
                sys.last_exc = value
        return etype, value, tb

    def seen_as(self, error: BaseException) -> BaseException:
        """The exception that the user is shown for `error`: one object, however often asked."""
        if self.rewrite_exception is None or error is None:
            return error
        if self._last_seen[0] is not error:
            seen = self.rewrite_exception(error)
            if seen is not error and seen.__traceback__ is None:
                seen.__traceback__ = error.__traceback__
            self._last_seen = (error, seen)
        return self._last_seen[1]

    async def run_code(self, code_obj, result=None, *, async_=False):
        """Run one compiled statement list of a cell; True when it raised."""
        # For debuggers: frames up to here are the shell's.
        __tracebackhide__ = "__ipython_bottom__"
        if self.recorder is None:
            return await super().run_code(code_obj, result, async_=async_)
        record, outer_hook = self.recorder, sys.excepthook
        self.sys_excepthook, sys.excepthook = outer_hook, self.excepthook
        results: list[object] = []
        keep, display = results.append, sys.displayhook
        try:
            sys.displayhook = keep
            record.enable()
            try:
                if async_:
                    await eval(code_obj, self.user_global_ns, self.user_ns)  # noqa: S307
                else:
                    exec(code_obj, self.user_global_ns, self.user_ns)  # noqa: S102
            finally:
                record.disable()
                sys.excepthook = outer_hook
                if sys.displayhook is keep:
                    sys.displayhook = display
            for value in results:
                sys.displayhook(value)
        except BaseException as error:
            if result is not None:
                result.error_in_exec = error
            self._show_failure(error)
            return True
        return False

    def _show_failure(self, error: BaseException) -> None:
        import bdb
        import warnings

        if isinstance(error, SystemExit):
            self.showtraceback(exception_only=True)
            warnings.warn("To exit: use 'exit', 'quit', or Ctrl-D.", stacklevel=1)
        elif isinstance(error, bdb.BdbQuit):
            pass  # the user left the debugger
        elif isinstance(error, self.custom_exceptions):
            self.CustomTB(type(error), error, error.__traceback__)
        else:
            # IPython knows its own frames by their module; this one is taken off by hand.
            tb = error.__traceback__
            if tb is not None and tb.tb_next is not None:
                error.__traceback__ = tb = tb.tb_next
            self.showtraceback((type(error), error, tb), tb_offset=0, running_compiled_code=True)


WorkerShell = ZMQInteractiveShell


def interrupted(error: BaseException, cancelled: bool) -> BaseException:
    """What an async cell's CancelledError is called when SIGINT was its cause."""
    if cancelled and isinstance(error, asyncio.CancelledError):
        return KeyboardInterrupt().with_traceback(error.__traceback__)
    return error
