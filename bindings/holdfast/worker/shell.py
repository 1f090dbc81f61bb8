"""ZMQInteractiveShell with three additions that an instrumented cell needs.

*Recording.* With a recorder set, events are on exactly while the cell's compiled code runs:
not while IPython transforms, compiles, or formats a traceback. IPython's run_code does those
last things around the `exec` call, so it can't be wrapped from outside without recording them; a
cell worker's shell therefore has its own. The value of the last expression is formatted and
displayed after the events are off. The recorder is told the cell's name, the same that
tracebacks use. IPython's capture of output for its history is left out, since it would show
in the trace of every print, and is not carried home anyway.

*Exceptions in other words.* A NameError for a name that couldn't be carried into this process
becomes a NotCarriedError, and a CancelledError that SIGINT caused becomes the
KeyboardInterrupt that it stands for. Both keep their traceback.

*One-line cells.* IPython reads `exit` and `quit` alone as calls; see transform_cell.

The class is called ZMQInteractiveShell, because libraries compare the name.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import typing as t

from ipykernel import zmqshell
from traitlets import Any


class Recorder(t.Protocol):
    """What the shell needs of a recorder: see holdfast._recorder."""

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def show_file(self, filename: str, shown: str, /) -> None: ...


class ZMQInteractiveShell(zmqshell.ZMQInteractiveShell):
    """The shell of a worker."""

    recorder = Any()  # Recorder, None where nothing is recorded
    instrument = Any(True)  # with a recorder: switch events on for each cell
    saw_code = Any()  # called with each piece of a cell's code, before it runs
    begin_code = Any()  # called before each piece of a cell's code; may raise KeyboardInterrupt
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

    def transform_cell(self, raw_cell):
        """As the original, for which a cell of one line may be a call without parentheses.

        The commented line of a Score-P command above it doesn't count: `exit` is `exit` there.
        """
        head, newline, line = raw_cell.partition("\n")
        if head.startswith("# %%") and len(line.strip().splitlines()) == 1:
            # The line keeps its number: tracebacks and traces show it.
            return head + newline + super().transform_cell(line)
        return super().transform_cell(raw_cell)

    @functools.wraps(zmqshell.ZMQInteractiveShell.run_cell_async)  # its signature is asked for
    async def run_cell_async(self, *args, **kwargs):
        """As the original. The event loop resumes an awaiting cell through this frame, which
        hides IPython's below it from a recording."""
        return await super().run_cell_async(*args, **kwargs)

    def ask_exit(self):
        """As the original, but for a recorded cell: the home goes on after it."""
        if self.recorder is None:
            super().ask_exit()
        else:
            keeps = self.keepkernel_on_exit
            self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": keeps})

    async def run_code(self, code_obj, result=None, *, async_=False):
        """Run one compiled statement list of a cell; True when it raised."""
        # For debuggers: frames up to here are the shell's.
        __tracebackhide__ = "__ipython_bottom__"
        try:
            if self.begin_code is not None:
                self.begin_code()
        except KeyboardInterrupt as error:
            if result is not None:
                result.error_in_exec = error
            self._show_failure(error)
            return True
        if self.saw_code is not None:
            self.saw_code(code_obj)
        self._name_cell(code_obj.co_filename)
        if self.recorder is None or not self.instrument:
            return await super().run_code(code_obj, result, async_=async_)
        record, outer_hook = self.recorder, sys.excepthook
        # Properties, which would be recorded.
        names, local_names = self.user_global_ns, self.user_ns
        self.sys_excepthook, sys.excepthook = outer_hook, self.excepthook
        results: list[object] = []
        keep, display = results.append, sys.displayhook
        try:
            sys.displayhook = keep
            record.enable()
            try:
                if async_:
                    await eval(code_obj, names, local_names)  # noqa: S307
                else:
                    exec(code_obj, names, local_names)  # noqa: S102
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

    def _name_cell(self, filename: str) -> None:
        number = cell_numbers(self).get(filename)
        if self.recorder is not None and number is not None:
            self.recorder.show_file(filename, f"In[{number}]")

    def name_cells(self) -> None:
        """Tell the recorder of all cells so far: their functions may be called."""
        for filename in cell_numbers(self):
            self._name_cell(filename)

    def _tee(self, channel):
        if self.recorder is not None:
            return contextlib.nullcontext()
        return super()._tee(channel)

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


def cell_numbers(shell: t.Any) -> dict[str, int]:
    """IPython's own map from the file names of cells' code to execution counts.

    It travels with the inputs: a function keeps the file name of the worker that defined
    it, and tracebacks and traces show that as the cell.
    """
    return getattr(shell.compile, "_filename_map", {})


def interrupted(error: BaseException, cancelled: bool) -> BaseException:
    """What an async cell's CancelledError is called when SIGINT was its cause."""
    if cancelled and isinstance(error, asyncio.CancelledError):
        return KeyboardInterrupt().with_traceback(error.__traceback__)
    return error
