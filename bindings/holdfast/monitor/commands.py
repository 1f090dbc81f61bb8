"""The %perfmonitor commands: what each does with its line.

A command that can't do what the user asks for says why in one line on stderr. The cell goes on, as with JUmPER: a
notebook that is run from top to bottom doesn't stop at a report.
"""

from __future__ import annotations

import sys
import typing as t

from .arguments import FLAG, CommandError, Option, parse, seconds
from .command_session import Session, Wanted, session_of
from .registration import COMMANDS

_INTERVAL = 1.0  # seconds


def run(name: str, line: str, shell: t.Any) -> None:
    """Run a command. An error is one line on stderr.

    Parameters
    ----------
    name : str
        The command, without "%".
    line : str
        The words after it.
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    """
    session = session_of(shell)
    try:
        _ACTIONS[name](session, line)
    except CommandError as error:
        print(f"%{name}: {error}", file=sys.stderr)
    except (OSError, RuntimeError) as error:  # of the sampler: source.MonitorError
        print(f"%{name}: {error}", file=sys.stderr)


def report_last(shell: t.Any, level: str, text: bool) -> None:
    """Show the report of the last cell, for a user who wants one after each.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    level : str
        The level.
    text : bool
        Whether it is printed, not displayed.
    """
    session = session_of(shell)
    try:
        ended = session.ended(session.monitor)
        if ended and not _is_commands_only(ended[-1].source):
            session.report(session.monitor, level, ended[-1:], text)
    except (CommandError, OSError, RuntimeError) as error:
        print(f"%perfmonitor_perfreport: {error}", file=sys.stderr)


def monitor_of(shell: t.Any) -> t.Any:
    """Return the live monitor that a shell's commands use.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.

    Returns
    -------
    Monitor
        That of the notebook.
    """
    return session_of(shell).monitor


_LEVEL = {"--level": Option()}
_CELL = {"--cell": Option()}
_TEXT = {"--text": FLAG}
_SAVED = {"--save-jpeg": Option(), "--pickle": Option()}

# ---- the monitor


def _start(session: Session, line: str) -> None:
    # The last two are options of JUmPER. There is one sampler here, which needs no check.
    options = {"--pss": FLAG, "--monitor": Option(), "--check-sanity": FLAG}
    words, given = parse(line, options, words_most=1)
    _begin(session, seconds(words[0]) if words else _INTERVAL, given.get("pss", False))


def _begin(session: Session, interval: float, weigh: bool = False) -> None:
    session.imported = None
    state = session.monitor.state()
    if state["running"] and state["interval"] == interval and not weigh:
        print(f"The monitor runs already, with a sample every {interval:g} s")
        return
    session.monitor.start(interval, weigh)
    more = ", and PSS and USS once a second and when memory changes" if weigh else ""
    print(f"The monitor takes a sample every {interval:g} s{more}")


def _stop(session: Session, line: str) -> None:
    parse(line, {})
    state = session.monitor.state()
    if not state["running"]:
        raise CommandError("the monitor isn't running")
    session.monitor.stop()
    print(f"The monitor has stopped after {state['samples']} samples; they stay")


def _resources(session: Session, line: str) -> None:
    parse(line, {})
    from .report import of_resources

    print(of_resources(session.record.resources()))


# ---- reports and plots


def _report(session: Session, line: str) -> None:
    _, given = parse(line, _CELL | _LEVEL | _TEXT)
    level = session.level(given.get("level"))
    cells = session.chosen(given.get("cell"))
    session.report(session.record, level, cells, given.get("text", False))


def _enable_reports(session: Session, line: str) -> None:
    _, given = parse(line, _LEVEL | _TEXT | {"--interval": Option(seconds)})
    session.imported = None
    level = session.level(given.get("level"))
    interval = given.get("interval")
    if interval is not None or not session.monitor.state()["running"]:
        _begin(session, interval or _INTERVAL)
    _want_reports(session, {"on": True, "level": level, "text": given.get("text", False)})
    print(f"A report follows each cell, of the level {level}")


def _disable_reports(session: Session, line: str) -> None:
    parse(line, {})
    _want_reports(session, {"on": False})
    print("No more reports after each cell")


def _want_reports(session: Session, wanted: Wanted) -> None:
    """Note it in the frontend, which outlives every worker, or in the extension's watcher."""
    wire = getattr(getattr(session.shell, "kernel", None), "wire", None)
    if wire is not None:
        wire.send("perfreports", **wanted)
    elif session.want_reports is not None:
        session.want_reports(wanted)


def _plot(session: Session, line: str) -> None:
    from . import plot, saved

    live = Option(seconds, least=0, most=2)
    metrics = Option(least=1, most=len(plot.KEYS))
    options = {"--metrics": metrics, "--live": live, "--backend": Option(), **_CELL, **_LEVEL}
    _, given = parse(line, options | _SAVED)
    level = session.level(given.get("level"))
    wanted = plot.metrics(given.get("metrics"))
    if "live" in given:
        if given.keys() & {"save-jpeg", "pickle"}:
            raise CommandError("a live plot can't be written to a file")
        if session.imported is not None:
            raise CommandError(
                "an imported session can't be plotted live: go back to this notebook with %perfmonitor_start"
            )
        if not session.monitor.state()["running"]:
            raise CommandError("the monitor isn't running: start it with %perfmonitor_start")
        from . import live as live_plot

        live_plot.begin(session.shell, session.monitor, level, wanted, *given["live"])
        return
    cells = session.chosen(given.get("cell"))
    from holdfast.pages import page

    data = plot.data(session.record, level, cells, wanted)
    if "save-jpeg" in given:
        print(saved.drawn(given["save-jpeg"], data))
    if "pickle" in given:
        print(saved.pickled(given["pickle"], data))
    session.show(page.bundle(data))


def _history(session: Session, line: str) -> None:
    parse(line, {})
    from . import history

    cells = session.ended(session.record)
    if not cells:
        raise CommandError("no cell has run yet")
    session.show({"text/plain": history.text(cells), "text/html": history.page(cells)})


# ---- files


def _file(words: list[str], given: dict[str, t.Any]) -> str | None:
    if words and "file" in given:
        raise CommandError("only one file can be given")
    return words[0] if words else given.get("file")


def _needed(file: str | None) -> str:
    if file is None:
        raise CommandError("the file is missing")
    return file


_NAMED = {"--file": Option(), "--name": Option()}


def _variable(given: dict[str, t.Any], usual: str) -> str:
    name = given.get("name", usual)
    if not name.isidentifier():
        raise CommandError(f"{name!r} isn't a name for a variable")
    return name


def _export_samples(session: Session, line: str) -> None:
    from . import files, perfdata

    words, given = parse(line, _NAMED | _LEVEL, words_most=1)
    name, file = _variable(given, "perfdata_df"), _file(words, given)
    record, level = session.record, session.level(given.get("level"))
    samples = record.samples(level)
    if not len(samples.time):
        raise CommandError("there are no samples: start the monitor with %perfmonitor_start")
    columns = perfdata.table(samples, record.cells())
    if file is None:
        session.push(name, columns)
    else:
        print(f"{len(samples.time)} samples are in {files.write(file, columns)}")


def _load(session: Session, line: str, check: t.Callable[..., object], name: str) -> None:
    from . import files

    words, given = parse(line, {"--file": Option()}, words_most=1)
    file = _needed(_file(words, given))
    columns = files.read(file)
    check(columns, file)
    session.push(name, columns)


def _load_samples(session: Session, line: str) -> None:
    from . import perfdata

    _load(session, line, perfdata.check, "loaded_perfdata_df")


def _export_cells(session: Session, line: str) -> None:
    from . import files, history

    words, given = parse(line, _NAMED, words_most=1)
    name, file = _variable(given, "cell_history_df"), _file(words, given)
    cells = session.ended(session.record)
    if not cells:
        raise CommandError("no cell has run yet")
    columns = history.table(cells)
    if file is None:
        session.push(name, columns)
    else:
        print(f"{len(cells)} cells are in {files.write(file, columns)}")


def _load_cells(session: Session, line: str) -> None:
    from . import history

    _load(session, line, history.check, "loaded_cell_history_df")


def _export_session(session: Session, line: str) -> None:
    from holdfast._store import __version__

    from . import archive

    words, _ = parse(line, {}, words_most=1)
    path = archive.write(words[0] if words else None, session.record, __version__)
    print(f"The session is in {path}")


def _import_session(session: Session, line: str) -> None:
    from . import archive

    words, _ = parse(line, {}, words_most=1)
    session.imported = archive.read(_needed(words[0] if words else None))
    cells = len(session.imported.cells())
    print(
        f"Reports and plots are of the {cells} cells in {words[0]} now;"
        " %perfmonitor_start goes back to this notebook"
    )


# ---- scripts, help


def _start_script(session: Session, line: str) -> None:
    words, _ = parse(line, {}, words_most=1)
    session.script = (len(session.ended(session.monitor)), words[0] if words else "script.py")
    print(f"The code of the cells that follow goes to {session.script[1]}")


def _end_script(session: Session, line: str) -> None:
    parse(line, {})
    if session.script is None:
        raise CommandError("no script was begun: begin one with %start_write_script")
    from . import files

    first, path = session.script
    cells = session.ended(session.monitor)[first + 1 :]  # without the cell of the command
    files.write_script(path, [cell.source for cell in cells])
    session.script = None
    print(f"The code of {len(cells)} cells is in {path}")


def _fast_setup(session: Session, line: str) -> None:
    parse(line, {})
    _enable_reports(session, f"--interval {_INTERVAL}")


_EXAMPLES = (
    "%perfmonitor_start 0.1",
    "%perfmonitor_perfreport --cell 2:5 --level user",
    "%perfmonitor_plot --metrics cpu,memory --cell 3:",
    "%perfmonitor_export_perfdata samples.csv --level system",
)


def _help(session: Session, line: str) -> None:
    parse(line, {})
    from .plot import KEYS

    uses = [f"%{name} {arguments}".rstrip() for name, (arguments, _) in COMMANDS.items()]
    print("Commands of the monitor:")
    for use, (_, does) in zip(uses, COMMANDS.values(), strict=True):
        print(f"  {use}\n      {does}")
    print("Levels: process (the notebook's processes), user, system, slurm (where there is a job)")
    print("Ranges of cells: 5, 2:8 (both ends belong to it), :5, 3:, -3:-1 (from the end)")
    print(f"Metrics: {', '.join(KEYS)}")
    print("Examples:")
    for example in _EXAMPLES:
        print(f"  {example}")


def _is_commands_only(source: str) -> bool:
    """Whether a cell has only comments and commands of ours. Then no report follows it."""
    words = [line.split(None, 1)[0] for line in source.splitlines() if line.strip()]
    ours = {f"%{name}" for name in (*COMMANDS, "holdfast", "load_ext")}
    return all(word in ours or word.startswith("#") for word in words)


_ACTIONS: dict[str, t.Callable[[Session, str], None]] = {
    "perfmonitor_help": _help,
    "perfmonitor_resources": _resources,
    "perfmonitor_start": _start,
    "perfmonitor_stop": _stop,
    "perfmonitor_perfreport": _report,
    "perfmonitor_plot": _plot,
    "perfmonitor_enable_perfreports": _enable_reports,
    "perfmonitor_disable_perfreports": _disable_reports,
    "perfmonitor_fast_setup": _fast_setup,
    "cell_history": _history,
    "show_cell_history": _history,
    "perfmonitor_export_perfdata": _export_samples,
    "perfmonitor_load_perfdata": _load_samples,
    "perfmonitor_export_cell_history": _export_cells,
    "perfmonitor_load_cell_history": _load_cells,
    "export_session": _export_session,
    "import_session": _import_session,
    "start_write_script": _start_script,
    "end_write_script": _end_script,
}
