"""The monitor's commands by name: line magics that import the rest when one is first called.

Every worker registers them, even if it never uses one. So this module imports nothing, and the functions are made
once, in the fork server, from which the workers are forked.
"""

from __future__ import annotations

import typing as t

# Name: its arguments, and what it does.
COMMANDS = {
    "perfmonitor_help": ("", "show this list"),
    "perfmonitor_resources": ("", "show the processors, memory and GPUs that may be used"),
    "perfmonitor_start": (
        "[INTERVAL] [--pss]",
        "sample every INTERVAL seconds (1), with PSS and USS of the memory once a second and when it changes",
    ),
    "perfmonitor_stop": ("", "stop sampling; the samples stay"),
    "perfmonitor_perfreport": (
        "[--cell RANGE] [--level LEVEL] [--text]",
        "show the resources that the cells used: all, or those of RANGE",
    ),
    "perfmonitor_plot": (
        "[--metrics LIST] [--cell RANGE] [--level LEVEL] [--live [SECONDS [WINDOW]]]"
        " [--save-jpeg FILE] [--pickle FILE]",
        "draw it over time, also to a file; live: the last WINDOW seconds (120), anew every"
        " SECONDS (2)",
    ),
    "perfmonitor_enable_perfreports": (
        "[--level LEVEL] [--interval SECONDS] [--text]",
        "start, and show a report after each cell",
    ),
    "perfmonitor_disable_perfreports": ("", "show no more of them"),
    "perfmonitor_fast_setup": ("", "start, and show a report after each cell"),
    "cell_history": ("", "show the cells that ran, with their times"),
    "show_cell_history": ("", "the same"),
    "perfmonitor_export_perfdata": (
        "[FILE] [--level LEVEL] [--name NAME]",
        "write the samples to a .csv or .json file; without one, make the DataFrame perfdata_df",
    ),
    "perfmonitor_load_perfdata": ("FILE", "read such a file into loaded_perfdata_df"),
    "perfmonitor_export_cell_history": (
        "[FILE] [--name NAME]",
        "write the cells to a .csv or .json file; without one, make the DataFrame cell_history_df",
    ),
    "perfmonitor_load_cell_history": ("FILE", "read such a file into loaded_cell_history_df"),
    "export_session": ("[FILE]", "write samples, cells and resources to one archive, a .zip"),
    "import_session": ("FILE", "show reports and plots of such an archive until the next start"),
    "start_write_script": ("[FILE]", "keep the code of the cells that follow"),
    "end_write_script": ("", "write it to FILE, a Python script"),
}


def register(shell: t.Any) -> None:
    """Add the commands to a shell.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell.
    """
    shell.magics_manager.magics["line"].update(_MAGICS)


def _magic(name: str) -> t.Callable[[str], None]:
    def magic(line: str = "") -> None:
        from IPython.core.getipython import get_ipython

        from . import commands

        commands.run(name, line, get_ipython())

    arguments, does = COMMANDS[name]
    magic.__name__ = magic.__qualname__ = name
    magic.__doc__ = f"{does[0].upper()}{does[1:]}.\n\n%{name} {arguments}".rstrip()
    return magic


_MAGICS = {name: _magic(name) for name in COMMANDS}
