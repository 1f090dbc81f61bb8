"""`%load_ext holdfast`: the monitor's commands in plain ipykernel and in terminal IPython.

There the sampler is a small child process, and IPython's events say when cells begin and end. A worker of ours has the
commands already, and the frontend knows the cells. Notebooks that were written for JUmPER begin with
`%load_ext jumper_extension`. If JUmPER isn't installed, that loads this module, too (`alias`).
"""

from __future__ import annotations

import contextlib
import sys
import typing as t

from .command_session import Wanted, session_of
from .registration import register

_watchers: dict[int, Watcher] = {}


class Watcher:
    """Reports a shell's cells to the sampler, from the first command on.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    """

    def __init__(self, shell: t.Any):
        self.shell = shell
        self.reports: Wanted = {"on": False}
        self._began = False  # the cell that loads the extension isn't logged
        self._events = {"pre_run_cell": self._begin, "post_run_cell": self._end}

    def listen(self) -> None:
        """Connect to the sampler, and begin to watch.

        Raises
        ------
        MonitorError
            There is no sampler.
        OSError
            The child process can't be started.
        """
        from . import commands

        commands.monitor_of(self.shell)
        session_of(self.shell).want_reports = self._want_reports
        for event, function in self._events.items():
            self.shell.events.register(event, function)

    def _want_reports(self, wanted: Wanted) -> None:
        self.reports = {"level": "process", "text": False, **wanted}

    def stop(self) -> None:
        """Stop watching."""
        session_of(self.shell).want_reports = None
        for event, function in self._events.items():
            with contextlib.suppress(ValueError):  # other code has removed it
                self.shell.events.unregister(event, function)

    def _begin(self, info: t.Any) -> None:
        number = self.shell.execution_count
        self._began = self._notify("begin_cell", info.raw_cell or "", number)

    def _end(self, result: t.Any) -> None:
        from . import commands

        began, self._began = self._began, False
        if began and self._notify("end_cell", _outcome(result)) and self.reports["on"]:
            commands.report_last(self.shell, self.reports["level"], self.reports["text"])

    def _notify(self, what: str, *arguments: t.Any) -> bool:
        """Report to the sampler. If it is gone, say so once to the user."""
        from . import commands

        try:
            getattr(commands.monitor_of(self.shell), what)(*arguments)
        except (OSError, RuntimeError) as error:
            print(f"The monitor has ended: {error}", file=sys.stderr)
            self.stop()
            return False
        return True


def _outcome(result: t.Any) -> str:
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        return "ok"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "error"


def load_ipython_extension(shell: t.Any) -> None:
    """Add the commands to a shell. In a kernel other than ours its cells are watched, too.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    """
    register(shell)
    if getattr(getattr(shell, "kernel", None), "wire", None) is None and id(shell) not in _watchers:
        watcher = Watcher(shell)
        try:
            watcher.listen()
        except (OSError, RuntimeError) as error:
            print(f"There is no monitor: {error}", file=sys.stderr)
            return
        _watchers[id(shell)] = watcher
    print("The monitor's commands are there: %perfmonitor_help lists them")


def unload_ipython_extension(shell: t.Any) -> None:
    """Stop watching and sampling. The child process stays for the next ``%load_ext``.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    """
    from . import commands

    watcher = _watchers.pop(id(shell), None)
    if watcher is not None:
        watcher.stop()
        commands.run("perfmonitor_stop", "", shell)
