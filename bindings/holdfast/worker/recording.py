"""The recording of one cell: opened before it and closed after it, in each run mode.

If a recording can't be opened, the cell doesn't run: a user who asks for a trace does not want an hour of
computing without one. If it can't be written at the end, the trace is lost, not the cell.

The main worker records many cells, one after the other, so a recording must leave nothing behind. The shell
stops recording, the guard against sudden ends is switched off, and the recorder puts the notebook's own
profile function back.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
import types
import typing as t

from holdfast import libraries
from holdfast.base.usage import Usage
from holdfast.scorep import (
    ending,
    lines,
    loading,
    messages,
    options,
    recovery,
    settings,
)
from holdfast.scorep.children import follow

from . import notices
from .control import Frame
from .event_cost import Counted, c_event_cost, event_cost
from .ipython import frames
from .settings import process_settings
from .settings.module_files import working_directory

if t.TYPE_CHECKING:
    from holdfast import _recorder

    from .reports import Counts, ErrorContent, Report

# The directory that a process is started anew for, if nobody named it: Score-P makes it at its start.
_SETTLED = "HOLDFAST_SCOREP_DIRECTORY"
_OFF = {"off", "0", "no", "false"}  # of HOLDFAST_SUMMARY: the line below a cell


class Recording:
    """A worker's recordings, one at a time."""

    def __init__(self, shell: t.Any):
        from holdfast import scorep

        scorep.install_alias()
        self._shell = shell
        self._recorder = importlib.import_module("holdfast._recorder")
        # Their directories, since they may run at an import of the cell's.
        for module in (
            process_settings,
            libraries,
        ):
            self._recorder.exclude(os.path.join(os.path.dirname(module.__file__), ""))
        frames.leave_out(self._recorder)
        self._experiment = ""  # absolute; "" if nothing is recorded
        self._shown = ""  # the same as the user wrote it
        self._is_automatic = False  # nobody named it
        self.waits = False  # the trace of the last one, for `finish`
        self._left = ""  # where one waits for another process, which the frontend starts
        self._recorded_by = ""  # of the last recording: scorep or builtin
        self._instrumented: set[str] = set()  # instrumenter files that ran in this process
        self._cost = event_cost  # of the last recording, as the next two
        self._counted = Counted()
        self._seconds_of_others = 0.0
        self._lines = (0, 0.0)  # calls that the sampler of lines noticed, and its own seconds

    def prepare(self) -> None:
        """Do ahead of a cell what takes time: Score-P's installation is looked at."""
        if loading.is_chosen():
            with contextlib.suppress(OSError, RuntimeError):  # reported when a cell wants it
                loading.find()

    def measure(self) -> None:
        """Find out what an event costs, unless that is known; nothing is recorded yet."""
        if not self._cost.known and not loading.is_chosen():
            with contextlib.suppress(OSError, RuntimeError):
                self._cost.measure(self._recorder)

    def needs_restart(self, arguments: t.Sequence[str]) -> bool:
        """Whether what the arguments ask for must be there when a process starts. RuntimeError:
        they can't be understood, or there is no such Score-P."""
        if not loading.is_chosen() or loading.is_preloaded():
            return False
        given = options.parse(arguments)
        with loading.settings_kept():
            loading.configure(given.forwarded + given.unknown)
            if not loading.needs_start():
                return False
        loading.configure(given.forwarded + given.unknown)
        is_named = bool(os.environ.get("SCOREP_EXPERIMENT_DIRECTORY"))
        settings.settle_directory(os.environ)
        if not is_named:
            os.environ[_SETTLED] = os.environ["SCOREP_EXPERIMENT_DIRECTORY"]
        return True

    def is_open(self) -> bool:
        """Whether there is one already: the notebook's own, maybe."""
        return self._recorder.is_open()

    def open(self, arguments: t.Sequence[str]) -> None:
        """Open the experiment that the environment names. If each cell is to be recorded, one for which
        that is impossible runs all the same.

        Raises
        ------
        OSError
            Its directory can't be made, or not be written to.
        RuntimeError
            A recording is open already, or the settings or arguments can't be understood.
        """
        try:
            self._open(arguments)
        except OSError as error:
            if os.environ.get("HOLDFAST_RECORD") != "all":
                raise
            notices.say(f"the cell isn't recorded: {error}")

    def begin(self, arguments: t.Sequence[str]) -> ErrorContent | None:
        """As `open`; the content of the reply of a cell that doesn't run, since that is impossible."""
        try:
            self.open(arguments)
        except (OSError, RuntimeError) as error:
            return _refuse(self._shell, error)
        return None

    def _open(self, arguments: t.Sequence[str]) -> None:
        given, instrumentation = _parse(arguments)
        wanted = os.environ.get("SCOREP_EXPERIMENT_DIRECTORY", "")
        loading.configure(given.forwarded + given.unknown)
        has_scorep = loading.is_chosen()
        self._recorded_by = "scorep" if has_scorep else "builtin"
        with loading.settings_kept():
            self._recorder.open(wanted or None, c_calls=given.c_functions, children=True)
        self._cost = c_event_cost if given.c_functions else event_cost
        follow(c_calls=given.c_functions, enabled=given.instrument)
        self._experiment = self._recorder.directory()
        if self._left == self._experiment:  # that one was written, and has another name now
            self._left = ""
        if given.lines and not given.dummy:
            self._sample_lines()
        self._shown = wanted or self._experiment
        self._is_automatic = wanted in ("", os.environ.pop(_SETTLED, ""))
        ending.guard(self._end)
        self._shell.recorder = self._recorder
        if not has_scorep:
            self._shell.recorded = {
                "trace": self._experiment,
                "guardian": recovery.GUARDIAN,
                "recover": "python -m holdfast.scorep --recover",
                "automatic": self._is_automatic,
            }
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

    def _sample_lines(self) -> None:
        try:
            lines.begin(self._experiment)
        except (OSError, RuntimeError):
            self._recorder.close()
            raise

    def _end_lines(self) -> None:
        """Write the sources; the trace is written after this even if that fails."""
        try:
            self._lines = lines.end()
        except (OSError, RuntimeError, MemoryError) as error:
            notices.say(f"the sources of the lines in {self._experiment} are missing: {error}")

    @contextlib.contextmanager
    def around(self, report: Report, reply: Frame, later: bool) -> t.Iterator[None]:
        """While this is entered, the cell runs; then the recording is closed, and the reply gets the trace.
        Begins the report's `out`. With `later`, a trace that can wait does (`waits`), or is left to
        another process.

        The cell's wall time is that of its code, as the monitor and the trace have it. What IPython does
        before the code is hand-over: it is what remains of the whole (kernel/session/request.c). What it
        does after it, which is to show the result and open figures, is the begin of `out`.
        """
        usage = Usage()
        self._shell.usage = usage  # it begins when IPython has got as far as the code
        try:
            yield
        finally:
            self._shell.usage = None
            ran, own_seconds, ended_ns = _of_code(self._shell.span)
            report |= usage.end(self._shell.span, own_seconds, self._experiment)
            after = (time.monotonic_ns() - ended_ns) / 1e9
            counts, closing = self.close(later)
        recorded = self._seconds_of_others
        report["seconds_unrecorded"] = max(0.0, report["seconds_unrecorded"] - recorded)
        report["seconds_run"] = ran
        report["seconds_out"] = after + closing
        report["seconds_trace"] = closing
        report |= counts
        report["recorder"] = self._recorded_by
        if self._recorded_by == "builtin" and counts["events"]:
            report["seconds_out"] += self._measure_now()
        report["seconds_recorder"] = self._overhead()
        if self._shown:
            reply["trace"], self._shown = self._shown, ""
            reply["automatic"] = self._is_automatic
            if self._left == self._experiment:
                reply["unwritten"] = True
            report["summary"] = os.environ.get("HOLDFAST_SUMMARY", "").lower() not in _OFF

    def _measure_now(self) -> float:
        """If no waiting process has found out what an event costs: do it, once for all of them; the
        seconds that it took."""
        if self._cost.known or self._recorder.is_open():
            return 0.0
        started = time.perf_counter()
        self.measure()
        return time.perf_counter() - started

    def _overhead(self) -> float:
        """Processor seconds that the recording took of the cell's; 0 if that isn't known."""
        if self._recorded_by != "builtin" or not self._cost.known:
            return 0.0
        line_calls, sampler_seconds = self._lines
        return self._cost.of(self._counted._replace(line_calls=line_calls)) + sampler_seconds

    def close(self, later: bool = False) -> tuple[Counts, float]:
        """End the recording, if there is one: the report's counts, the seconds that it took. If it is to
        be written later and can, `finish` does that, or another process."""
        started = time.perf_counter()
        counts: Counts = {"events": 0}
        self._counted, self._seconds_of_others, self._lines = Counted(), 0.0, (0, 0.0)
        if self._shell.recorder is not None:
            self._shell.recorder, self._shell.recorded = None, {}
            self._end_lines()
            try:
                # One at a time is left to another process.
                leave = later and not (self._left and self._recorder.state(self._left))
                result = self._recorder.close(later=later, leave=leave)
                self.waits = result is not None and result["waits"]
                if result is not None and result["left"]:
                    self._left = self._experiment
                loading.end_alone()
            except (OSError, RuntimeError, MemoryError) as error:
                self._say_unwritten(error)
            else:
                counts |= self._judge(result)
        if not self.waits:
            ending.unguard()  # not before: SIGTERM waits until all is written
        return counts, time.perf_counter() - started

    def finish(self) -> None:
        """Write the trace that waits, if one does. Another process's readers wait for that
        (experiments.await_trace)."""
        try:
            self._recorder.finish()
        except (OSError, RuntimeError, MemoryError) as error:
            self._say_unwritten(error)
        finally:
            self.waits = False
            ending.unguard()

    def await_other(self) -> None:
        """Wait until another process has written the large trace that was left to it, or write it: what comes
        may read it by a program of its own. A recorded cell doesn't wait."""
        directory, self._left = self._left, ""
        if directory:
            try:
                self._recorder.recover(directory)
            except (OSError, RuntimeError, MemoryError) as error:
                self._say_unwritten(error, directory)

    def _end(self) -> None:
        """Before this process ends: write all."""
        self.close()
        self.finish()

    def _say_unwritten(self, error: Exception, directory: str = "") -> None:
        place = directory or self._experiment
        notices.say(f"the trace in {place} could not be written: {error}")

    def _judge(self, result: _recorder._Result | None) -> Counts:
        """Say what is wrong with what was written; the report's counts of it."""
        if result is None:
            notices.say(f"the cell itself closed its recording, in {self._experiment}")
            return {}
        if result["collapsed"]:
            notices.say(
                f"{result['collapsed']} calls were too deep, or on too many paths, to be kept apart in the profile"
            )
        if result["lost"]:
            notices.say(ending.missing(result))
        self._counted = Counted.of(result)
        self._seconds_of_others = result["others_seconds"]
        return {
            "events": result["events"],
            "events_others": result["others"],
            "events_lost": result["lost"],
            "events_rewound": result["rewound"],
            "flushes": result["flushes"],
            "seconds_flushed": result["flush_seconds"],
        }


def _of_code(span: t.Mapping[str, t.Mapping[str, int]]) -> tuple[float, float, int]:
    """Of a cell's code wall and processor seconds, and when it ended (CLOCK_MONOTONIC). If no code ran,
    as after a syntax error, it took no time and ended now."""
    if "begin" not in span or "end" not in span:
        return 0.0, 0.0, time.monotonic_ns()
    begin, end = span["begin"], span["end"]
    wall, own = (end[name] - begin[name] for name in ("time_ns", "cpu_ns"))
    return wall / 1e9, own / 1e9, end["time_ns"]


def _refuse(shell: t.Any, error: Exception) -> ErrorContent:
    """The content of the reply of a cell that did not run, since it could not be recorded."""
    advice = _DIRECTORY_ADVICE if isinstance(error, OSError) else _ADVICE
    is_gone = isinstance(error, FileNotFoundError) and not working_directory()
    said = f"the cell did not run: {_GONE if is_gone else error}. {advice}"
    name, shown = type(error).__name__, [f"{type(error).__name__}: {said}"]
    shell._showtraceback(type(error), said, shown)
    return {"status": "error", "ename": name, "evalue": said, "traceback": shown}


_ADVICE = (
    "Change the settings, or run the cell without %%execute_with_scorep; HOLDFAST_RECORDER=builtin "
    "(%env) records without Score-P."
)
_GONE = "the working directory was removed"
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
        messages.warn_once("unknown, passed over: " + " ".join(given.unknown))
    try:
        return given, options.load_instrumenter_file(given)
    except SyntaxError as error:
        raise _wrong(given, error) from error


def _wrong(given: options.Options, error: Exception) -> options.UsageError:
    said = f"{type(error).__name__}: {error}"
    return options.UsageError(f"--instrumenter-file={given.instrumenter_file}: {said}")
