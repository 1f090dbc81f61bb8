"""The recording of one cell: opened before it, closed after it, on whichever road it takes.

A recording that can't be opened is an error before the cell runs: who asks for a trace does not
want an hour of computing without one. One that can't be written at the end costs the trace,
not the cell.

The home records many cells, one after the other, so nothing of a recording may be left behind:
the shell records no further, the guard against sudden ends is down, and the recorder has put a
profile function that the notebook had set in its place again.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
import types
import typing as t

from holdfast.scorep import ending, loading, options, telling
from holdfast.scorep.children import follow

from . import figures, tables, tensors
from .control import Frame


class Recording:
    """A worker's recordings, one at a time."""

    def __init__(self, shell: t.Any):
        from holdfast import scorep

        scorep.install_alias()
        self._shell = shell
        self._recorder = importlib.import_module("holdfast._recorder")
        for module in (figures, tables, tensors):  # they may run at an import of the cell's
            self._recorder.exclude(module.__file__)
        self._experiment = ""  # absolute; "" where nothing is recorded
        self._shown = ""  # the same as the user wrote it
        self._instrumented: set[str] = set()  # instrumenter files that ran in this process

    def prepare(self) -> None:
        """Do ahead of a cell what takes time: Score-P's installation is looked at."""
        if loading.is_chosen():
            with contextlib.suppress(OSError, RuntimeError):  # told when a cell wants it
                loading.find()

    def is_open(self) -> bool:
        """Whether there is one already: the notebook's own, maybe."""
        return self._recorder.is_open()

    def open(self, arguments: t.Sequence[str]) -> None:
        """Open the experiment that the environment names.

        Raises
        ------
        OSError
            Its directory can't be made, or not be written to.
        RuntimeError
            A recording is open already, or the settings or arguments can't be understood.
        """
        given, instrumentation = _parse(arguments)
        wanted = os.environ.get("SCOREP_EXPERIMENT_DIRECTORY", "")
        loading.configure(given.forwarded + given.unknown)
        with loading.settings_kept():
            self._recorder.open(wanted or None, c_calls=given.c_functions, children=True)
        follow(c_calls=given.c_functions)
        self._experiment = self._recorder.directory()
        self._shown = wanted or self._experiment
        ending.guard(self.close)
        self._shell.recorder = self._recorder
        self._shell.instrument = given.instrument
        self._shell.name_cells()
        if given.dummy:
            self.close()
        elif instrumentation and instrumentation.co_filename not in self._instrumented:
            self._instrumented.add(instrumentation.co_filename)
            try:
                options.run_instrumenter_file(instrumentation)
            except Exception as error:
                self.close()
                raise _wrong(given, error) from error

    async def run(self, cell: t.Awaitable[Frame], report: Frame) -> Frame:
        """Wait for the cell and close; its reply with the trace. Begins the report's `out`."""
        started = time.perf_counter()
        try:
            reply = await cell
        finally:
            events, closing = self.close()
        report["seconds_run"] = time.perf_counter() - started - closing
        report["seconds_out"] = closing
        report["events"] = events
        report["recorder"] = "scorep" if loading.is_chosen() else "builtin"
        if self._shown:
            reply["trace"] = self._shown
        return reply

    def close(self) -> tuple[int, float]:
        """End the recording, if there is one: its events, the seconds that it took."""
        started = time.perf_counter()
        events = 0
        if self._shell.recorder is not None:
            self._shell.recorder = None
            try:
                result = self._recorder.close()
            except (OSError, RuntimeError, MemoryError) as error:
                _tell(f"the trace in {self._experiment} could not be written: {error}")
            else:
                events = self._judge(result)
        ending.unguard()  # not before: SIGTERM waits until all is written
        return events, time.perf_counter() - started

    def _judge(self, result: dict[str, t.Any] | None) -> int:
        """Say what is wrong with what was written; how many events it has."""
        if result is None:
            _tell(f"the cell itself closed its recording, in {self._experiment}")
            return 0
        if result["collapsed"]:
            _tell(f"{result['collapsed']} calls have no path of their own in the profile")
        if result["lost"]:
            _tell(f"{result['lost']} events could not be written to {self._experiment}")
        return result["events"]


def refuse(shell: t.Any, error: Exception) -> dict[str, t.Any]:
    """The content of the reply of a cell that did not run, since it could not be recorded."""
    advice = _DIRECTORY_ADVICE if isinstance(error, OSError) else _ADVICE
    said = f"the cell did not run: {error}. {advice}"
    name, shown = type(error).__name__, [f"{type(error).__name__}: {said}"]
    shell._showtraceback(type(error), said, shown)
    return {"status": "error", "ename": name, "evalue": said, "traceback": shown}


_ADVICE = (
    "Change the settings, or run the cell without %%execute_with_scorep; HOLDFAST_RECORDER=builtin "
    "(%env) records without Score-P."
)
_DIRECTORY_ADVICE = (
    "Choose another directory with SCOREP_EXPERIMENT_DIRECTORY (%env, %%scorep_env), or run the "
    "cell without %%execute_with_scorep."
)


def _parse(arguments: t.Sequence[str]) -> tuple[options.Options, types.CodeType | None]:
    """The options, and the code of their instrumenter file."""
    given = options.parse(arguments)
    if given.kind:
        raise options.UsageError("%%scorep_python_binding_arguments takes options only")
    if given.unknown and not loading.is_chosen():
        telling.warn("unknown, passed over: " + " ".join(given.unknown))
    try:
        return given, options.load_instrumenter_file(given)
    except SyntaxError as error:
        raise _wrong(given, error) from error


def _wrong(given: options.Options, error: Exception) -> options.UsageError:
    said = f"{type(error).__name__}: {error}"
    return options.UsageError(f"--instrumenter-file={given.instrumenter_file}: {said}")


def _tell(message: str) -> None:
    print(f"holdfast: {message}", file=sys.stderr)
