"""The commands of the frontend, as the shell knows them.

A cell that begins with one never comes here: the frontend reads them off its head. But the shell
completes `%%exe` and answers `%%execute_with_scorep?`; and where one stands inside of a cell, below
another magic or in what `%rerun` runs, a message says where it belongs.
"""

from __future__ import annotations

import typing as t

from IPython.core.error import UsageError

COMMANDS = {
    "execute_with_scorep": "Record this cell. If it kills its process, the notebook is as before it."
    " --run=isolated: in a clean process of its own. --repeat 5: five runs in turn, with their median"
    " and range.",
    "isolated": "The same without recording.",
    "scorep_env": "Lines NAME=value below it are settings for Score-P.",
    "scorep_python_binding_arguments": "Arguments such as --noinstrumenter for the cells to come.",
    "enable_multicellmode": "From here on cells are marked, to be recorded as one.",
    "finalize_multicellmode": "Record the marked cells as one.",
    "abort_multicellmode": "Drop the marked cells.",
    "start_writefile": "From here on cells are written to a script, whose NAME may follow.",
    "end_writefile": "Write the script.",
    "abort_writefile": "Drop it.",
    "enable_vampir_launch_on_scorep_instrumented": "Open each trace in Vampir.",
    "disable_vampir_launch": "Open none.",
    "marshalling_settings": "Accepted, so that notebooks of the Score-P kernel run.",
    "serializer_settings": "Accepted, so that notebooks of the Score-P kernel run.",
}


def register(shell: t.Any) -> None:
    """Make them known to a worker's shell."""
    for name, meaning in COMMANDS.items():
        shell.register_magic_function(_magic(name, meaning), "cell", name)


def _magic(name: str, meaning: str) -> t.Callable[[str, str], None]:
    def command(line: str, cell: str) -> None:
        raise UsageError(f"%%{name} stands at the top of a cell of its own, above other magics.")

    command.__doc__, command.__name__ = meaning, name
    return command
