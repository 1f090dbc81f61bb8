"""A worker's IPython shell: ipykernel's, with four additions that recorded cells need.

*Recording.* With a recorder set, events are on exactly while the cell's compiled code runs: not while IPython
transforms, compiles, or formats a traceback. IPython's run_code does the last of these around its `exec`
call, so it can't be wrapped from outside; a cell worker's shell has its own. The value of the last expression
is formatted and displayed after the events are off. The recorder gets the cell's name, the same as in
tracebacks. IPython compiles and runs a cell's statements one by one; the cell's region spans them all.
IPython's capture of output for its history is left out: it would show in the trace of every print, and isn't
carried back.

*Exceptions in other words.* A NameError for a name that couldn't be carried into this process becomes a
NotCarriedError. A CancelledError that SIGINT caused becomes a KeyboardInterrupt. Both keep their traceback.

*One-line cells.* IPython reads `exit` and `quit` alone as calls; see transform_cell.

*Names of cells.* A cell's code is a file to tracebacks and debuggers. As in ipykernel its name is a hash of
its text, in a directory. Here the directory is the fork server's, so that a cell has one name wherever it
runs. The text is what the client has, so that the client finds it: commands to the frontend are blanked in
the code that runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import linecache
import os
import re
import sys
import types
import typing as t
from pathlib import Path

# As they are now: what a cell puts in their place isn't called by us.
from time import monotonic_ns as _monotonic_ns
from time import process_time_ns as _process_time_ns

from ipykernel import zmqshell
from ipykernel.compiler import (
    XCachingCompiler,
    get_tmp_directory,
    get_tmp_hash_seed,
    murmur2_x86,
)
from IPython.core import interactiveshell, oinspect
from traitlets import Any, Type, default

from holdfast.base.usage import word
from holdfast.carry import finalizers

from .. import commands
from ..computing import computing
from ..subshells import OwnInSubshell, in_subshell
from . import frames, tracebacks
from .history import History

DIRECTORY = get_tmp_directory()  # in the fork server, of which workers are forks
HASH_SEED = get_tmp_hash_seed()
_pylight = oinspect.pylight
_ASYNC = re.compile(r"\b(?:async|await)\b")
_MAGIC = re.compile(r"\bget_ipython\(\)\.run_(cell|line)_magic\('(\w+)'")
_HOW_TO_RUN = "exec(code_obj, self.user_global_ns, self.user_ns)"
_HOW_TO_EXIT = "To exit: use 'exit', 'quit', or Ctrl-D."


def file_name(code: str) -> str:
    """The file that a cell of this text is, for tracebacks and debuggers."""
    return os.path.join(DIRECTORY, f"{murmur2_x86(code, HASH_SEED)}.py")


class CellCompiler(XCachingCompiler):
    """Names a cell's code by the text that the client has."""

    written: tuple[str, str] = ("", "")  # code that runs, and the cell as it was written

    def get_code_name(self, raw_code, code, number):
        """The file that a cell's code is."""
        runs, text = self.written
        given = os.environ.get("IPYKERNEL_CELL_NAME")
        return given or file_name(text if raw_code == runs else raw_code)


class Recorder(t.Protocol):
    """The functions that the shell needs of a recorder: see holdfast._recorder."""

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def is_enabled(self) -> bool: ...

    def show_file(self, filename: str, shown: str, /) -> None: ...

    def begin_cell(self, filename: str, /) -> None: ...

    def end_cell(self) -> None: ...


class DisplayHook(zmqshell.ZMQShellDisplayHook):
    """Shows the results of several cells at once, where there are subshells."""

    msg = OwnInSubshell(None)  # type: ignore[assignment]


class Inspector(oinspect.Inspector):
    """Makes no HTML where the shell drops it, which was a quarter of an inspection."""

    def _make_info_unformatted(self, *args, **kwargs):
        if getattr(self.parent, "enable_html_pager", True):
            return super()._make_info_unformatted(*args, **kwargs)
        oinspect.pylight = str
        try:
            return super()._make_info_unformatted(*args, **kwargs)
        finally:
            oinspect.pylight = _pylight


class WorkerShell(zmqshell.ZMQInteractiveShell):
    """The shell of a worker."""

    displayhook_class = Type(DisplayHook)

    @default("inspector_class")
    def _inspector_class_default(self):
        return Inspector

    execution_count = OwnInSubshell(1)
    last_execution_result = OwnInSubshell(None)
    last_execution_succeeded = OwnInSubshell(True)
    _last_traceback = OwnInSubshell(None)

    recorder = Any()  # Recorder, None if nothing is recorded
    recorded = Any({})  # the fields of "started" that say where (control.h)
    span = Any({})  # those of "ended": when the code of the cell that runs began and ended
    request = Any(0)  # the number of its request
    usage = Any()  # Usage of a recorded cell: begins when IPython is about to run it
    instrument = Any(True)  # with a recorder: switch events on for each cell
    touched = Any()  # Touched: sees each piece of a cell's code before it runs
    patches = Any()  # Patches: sees what attributes of modules a cell sets
    interrupts = Any()  # Interrupts: may raise KeyboardInterrupt before a piece of a cell's code
    channel = Any()  # Channel to the frontend
    health = Any()  # Health: looks at the process when the code of a cell has run
    absent = Any()  # Absent: explains errors of what isn't in this process
    spare = Any()  # SpareMemory: for the words of a MemoryError

    runs = Any()  # what the frontend reports of each recorded cell that ran: JSON
    from_files = Any(frozenset())  # names that startup files have bound, which %who hides
    own_hidden = Any(frozenset())  # names that were hidden from %who before the notebook's code ran
    goes_with_cell = Any(())  # names whose objects nobody else has
    ends_with_cell = Any(False)  # its history and its aliases are of no use after that

    _shown_at = Any()  # when the last traceback was to be shown
    _code_ended = Any(None)  # when the last piece of a recorded cell's code so far did
    _last_seen = OwnInSubshell((None, None))
    _in_cell = OwnInSubshell(False)
    _displaying = OwnInSubshell(())  # what keeps the results of recorded code, what shows them
    kept = OwnInSubshell(None)  # a cell and what it became: see transform_cell

    def reset(self, *arguments, **options):
        """%reset keeps `__name__` and `__builtin__`, which are no more the notebook's than before."""
        before = self.user_ns_hidden.copy()
        super().reset(*arguments, **options)
        kept = {name: value for name, value in before.items() if self.user_ns.get(name) is value}
        self.user_ns_hidden.update(kept)

    def _get_exc_info(self, exc_tuple=None):
        etype, value, tb = super()._get_exc_info(exc_tuple)
        tb = tracebacks.tidy(value, tb)
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
        if self.absent is None or error is None:
            return error
        if self._last_seen[0] is not error:
            if isinstance(error, MemoryError):
                self.spare.give()
            seen = self.absent.explain(interrupted(error, self.interrupts.cancelled))
            if seen is not error and seen.__traceback__ is None:
                seen.__traceback__ = error.__traceback__
            self._last_seen = (error, seen)
        return self._last_seen[1]

    def init_traceback_handlers(self, custom_exceptions):
        """As the original; see tracebacks.py."""
        super().init_traceback_handlers(custom_exceptions)
        tracebacks.give_lines(self.InteractiveTB)
        tracebacks.begin_with(self.SyntaxTB, lambda: (*_line_of_ipython(_HOW_TO_RUN), "run_code"))

    def init_history(self):
        """As the original, but written when the notebook pauses."""
        self.history_manager = History(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    @functools.wraps(zmqshell.ZMQInteractiveShell.run_cell)
    def run_cell(self, raw_cell, *args, **kwargs):
        """As the original. Code of the history may have the frontend's commands (commands.py)."""
        return super().run_cell(commands.commented(raw_cell), *args, **kwargs)

    def transform_cell(self, raw_cell):
        """As the original, for which a cell of one line may be a call without parentheses.

        The commented line of a Score-P command above it doesn't count: `exit` is `exit` there.
        ipykernel transforms a cell to know how to run it, and IPython to run it: where `kept` is
        empty, the one keeps for the other what it has.
        """
        kept = self.kept
        if kept and kept[0] == raw_cell:
            self.kept = None
            return kept[1]
        head, newline, line = raw_cell.partition("\n")
        if head.startswith("# %%") and len(line.strip().splitlines()) == 1:
            # The line keeps its number: tracebacks and traces show it.
            done = head + newline + super().transform_cell(line)
        else:
            done = super().transform_cell(raw_cell)
        if kept is not None:
            self.kept = (raw_cell, done)
        if self.recorder is not None and "get_ipython" in done:
            self._load_magics(done)
        return done

    def _load_magics(self, code: str) -> None:
        """Load those of IPython's own magics that a recorded cell calls. IPython does it at the first call
        of each, which took 10 ms of the cell's time: its code hadn't asked for that."""
        load = getattr(self.magics_manager, "load_lazy", None)  # IPython 8 has them from its begin
        for kind, name in _MAGIC.findall(code):
            made = self.magics_manager.magics[kind].get(name)
            if load is not None and str(getattr(made, "spec", "")).startswith("IPython."):
                with contextlib.suppress(Exception):  # the call says what is wrong
                    load(name, kind)

    def should_run_async(self, raw_cell, *, transformed_cell=None, preprocessing_exc_tuple=None):
        """As the original, which compiles the cell to know it: there is no coroutine without one
        of two words."""
        if transformed_cell is not None and not _ASYNC.search(transformed_cell):
            return False
        return super().should_run_async(
            raw_cell,
            transformed_cell=transformed_cell,
            preprocessing_exc_tuple=preprocessing_exc_tuple,
        )

    def _format_exception_for_storage(self, exception, *args, **kwargs):
        """As the original, for which a traceback that has just been shown is made once more."""
        shown = self._last_traceback
        renders = hasattr(exception, "_render_traceback_")  # itself, which may show
        if shown is None or renders or exception is not self._last_seen[0]:
            return super()._format_exception_for_storage(exception, *args, **kwargs)
        seen = self.seen_as(exception)
        return {"ename": type(seen).__name__, "evalue": str(seen), "traceback": shown}

    @functools.wraps(zmqshell.ZMQInteractiveShell.run_cell_async)
    async def run_cell_async(self, *args, **kwargs):
        """As the original. The event loop resumes an awaiting cell through this frame, which
        hides IPython's below it from a recording."""
        is_outer, self._in_cell = not self._in_cell, True
        self.kept = None
        try:
            return await super().run_cell_async(*args, **kwargs)
        finally:
            self._in_cell = not is_outer
            if is_outer and self.recorder is not None:
                self.recorder.end_cell()

    def ask_exit(self):
        """As the original, but for a recorded cell: the main worker goes on after it."""
        if self.recorder is None:
            super().ask_exit()
        else:
            keeps = self.keepkernel_on_exit
            self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": keeps})

    def atexit_operations(self):
        """As the original, which makes an empty session of this one before it ends: with new
        aliases, and a history that is written. A cell's process only lets those objects go that end
        with it, which may have to tidy up."""
        if self.ends_with_cell:
            self._atexit_once_called = True
            finalizers.leave_to_others()
            finalizers.let_go(self.user_ns, self.goes_with_cell)
        super().atexit_operations()

    async def run_ast_nodes(self, nodelist, *args, **kwargs):
        """As the original: the code of one cell, or of one string that a magic runs."""
        if self.patches is not None:
            self.patches.see(nodelist)
        args = (nodelist, *args)
        if self.health is None or in_subshell():  # whose thread has signals of its own
            return await super().run_ast_nodes(*args, **kwargs)
        found = self.health.begin()
        outer = not self.span  # else a magic of the cell's code runs more code
        if outer:
            computing.begin()
            if self.usage is not None:
                self.usage.begin()
            self._shown_at, self._code_ended = None, None
            self.span = {"begin": word(begins=True)}
            if self.ends_with_cell:  # it may not come to its end
                self.channel.send("began", id=self.request, **self.span)
        try:
            raised = await super().run_ast_nodes(*args, **kwargs)
            if outer:
                self.span["end"] = self._end((raised and self._shown_at) or word())
            return raised
        finally:
            if outer:
                computing.end()
            if self.health is not None:  # else this is a child that the cell forked
                self.health.check(found)

    def _end(self, said: dict[str, t.Any]) -> dict[str, t.Any]:
        """Of a recorded cell the moment in which its last piece of code ended, not when that was shown."""
        return said | (self._code_ended or {})

    def _note_piece(self, began: dict[str, int]) -> None:
        """A piece of a recorded cell's code has ended. The cell's wall time is from the first one's begin
        to the last one's end, as its region in the trace is, without what IPython does around them."""
        if self.span and self._code_ended is None:
            self.span["begin"] = self.span["begin"] | began
        self._code_ended = _moment()

    def safe_execfile(self, fname, *args, **kwargs):
        """As the original: %run's, whose script is the program's code."""
        if self.recorder is not None:
            frames.show(self.recorder, str(Path(fname).expanduser().resolve()))
        super().safe_execfile(fname, *args, **kwargs)

    def showtraceback(self, *args, **kwargs):
        """As the original. If the cell's code has raised, this is the time of its end: what follows
        may take longer than the code did."""
        self._shown_at = word()
        super().showtraceback(*args, **kwargs)

    async def run_code(self, code_obj, result=None, *, async_=False):
        """Run one compiled statement list of a cell; True when it raised.

        A traceback holds the frame that caught the error. Had that frame the result, which
        holds the error, then each error, and all that its frames hold, would wait for the
        collector: so it has a result of its own, which is emptied.
        """
        own = types.SimpleNamespace(error_in_exec=None)
        try:
            return await self._run_code(code_obj, own, async_=async_)
        finally:
            if result is not None and own.error_in_exec is not None:
                result.error_in_exec = own.error_in_exec
            own.error_in_exec = None

    async def _run_code(self, code_obj, result, *, async_):
        # For debuggers: frames up to here are the shell's.
        __tracebackhide__ = "__ipython_bottom__"
        try:
            if self.interrupts is not None:
                self.interrupts.begin_code()
        except KeyboardInterrupt as error:
            result.error_in_exec = error
            self._show_failure(error)
            return True
        if self.touched is not None:
            self.touched.ran(code_obj)
        if self.patches is not None:
            self.patches.resolve()
        self._name_cell(code_obj.co_filename)
        if self.recorder is not None:  # in a clean process the number wasn't known before
            number = cell_numbers(self).get(code_obj.co_filename, self.execution_count)
            frames.name_cell(self.recorder, f"In[{number}]")
        if self.recorder is None:
            return await super().run_code(code_obj, result, async_=async_)
        if not self.instrument:
            began = _moment()
            try:
                return await super().run_code(code_obj, result, async_=async_)
            finally:
                self._note_piece(began)
        record, outer_hook = self.recorder, sys.excepthook
        # Properties, which would be recorded.
        names, local_names = self.user_global_ns, self.user_ns
        self.sys_excepthook, sys.excepthook = outer_hook, self.excepthook
        results: list[object] = []
        began = _moment()
        record.begin_cell(code_obj.co_filename)
        keep, display = results.append, sys.displayhook
        was_on = record.is_enabled()  # where the cell's code runs more code
        outer, self._displaying = self._displaying, (keep, self._display_of(display))
        try:
            sys.displayhook = keep
            record.enable()
            try:
                if async_:
                    await eval(code_obj, names, local_names)  # noqa: S307
                else:
                    exec(code_obj, names, local_names)  # noqa: S102
            finally:
                if not was_on:
                    record.disable()
                self._note_piece(began)
                sys.excepthook = outer_hook
                if sys.displayhook is keep:
                    sys.displayhook = display
                self._displaying = outer
            self._display(results, was_on)
        except BaseException as error:
            result.error_in_exec = error
            self._show_failure(error)
            return True
        return False

    def _display_of(self, hook: t.Callable[[object], object]) -> t.Callable[[object], object]:
        """The function that shows a result: not what keeps it for the code around this one, which
        would show it when that has ended. The code that runs other code asks for its result at
        once."""
        return self._displaying[1] if self._displaying and hook is self._displaying[0] else hook

    def _display(self, results: list[object], is_inner: bool) -> None:
        """Show results while nothing is recorded; code around this one goes on being recorded."""
        if is_inner and results:
            self.recorder.disable()
        try:
            for value in results:
                self._display_of(sys.displayhook)(value)
        finally:
            if is_inner and results:
                self.recorder.enable()

    def _name_cell(self, filename: str) -> None:
        number = cell_numbers(self).get(filename)
        if self.recorder is not None and number is not None:
            self.recorder.show_file(filename, f"In[{number}]")

    def name_cells(self) -> None:
        """Name all cells so far to the recorder: their functions may be called."""
        for filename in cell_numbers(self):
            self._name_cell(filename)
        frames.name_cell(self.recorder, f"In[{self.execution_count}]")

    def _tee(self, channel):
        if self.recorder is not None:
            return contextlib.nullcontext()
        return super()._tee(channel)

    def _show_failure(self, error: BaseException) -> None:
        import bdb
        import warnings

        if isinstance(error, SystemExit):
            self.showtraceback(exception_only=True)
            # As IPython's own line says it, and remembers that it did.
            name, line = _line_of_ipython(_HOW_TO_EXIT)
            said = vars(interactiveshell).setdefault("__warningregistry__", {})
            module = interactiveshell.__name__
            warnings.warn_explicit(_HOW_TO_EXIT, UserWarning, name, line, module, said)
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


# ipykernel asks for it before each cell.
WorkerShell.run_cell_async.__signature__ = inspect.signature(WorkerShell.run_cell_async)  # type: ignore[attr-defined]
WorkerShell.run_cell.__signature__ = inspect.signature(WorkerShell.run_cell)  # type: ignore[attr-defined]


def cell_numbers(shell: t.Any) -> dict[str, int]:
    """IPython's own map from the file names of cells' code to execution counts.

    It is carried with the inputs: a function keeps the file name of the worker that defined
    it, and tracebacks and traces show that as the cell.
    """
    return getattr(shell.compile, "_filename_map", {})


def _moment() -> dict[str, int]:
    """Those of a word (usage.py) that cost nearly nothing."""
    return {"time_ns": _monotonic_ns(), "cpu_ns": _process_time_ns()}


def _line_of_ipython(text: str) -> tuple[str, int]:
    """The place where IPython's shell shows this."""
    name = inspect.getfile(interactiveshell)
    lines = enumerate(linecache.getlines(name), 1)
    return name, next((number for number, line in lines if text in line), 1)


def interrupted(error: BaseException, cancelled: bool) -> BaseException:
    """The name of an async cell's CancelledError if SIGINT was its cause."""
    if cancelled and isinstance(error, asyncio.CancelledError):
        return KeyboardInterrupt().with_traceback(error.__traceback__)
    return error
