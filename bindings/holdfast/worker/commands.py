"""The frontend's cell commands (`%%execute_with_scorep` and others), as IPython's shell knows them.

A cell that begins with a command never comes here: the frontend reads the command. But the shell completes
`%%exe`, and answers `%%execute_with_scorep?`. If a command stands inside of a cell, below another magic, a
message says where it belongs. If a cell runs code of the history (`%rerun`, a macro), the command in it
counts as a comment.
"""

from __future__ import annotations

import contextlib
import re
import typing as t

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import make_tokens_by_line

COMMANDS = {
    "execute_with_scorep": "Record this cell. If it kills its process, the notebook is as before it."
    " --run=isolated: in a clean process of its own. --repeat 5: five runs in turn, with their median"
    " and range.",
    "isolated": "Run this cell in a clean process of its own, without recording it. --run=in-process: in the"
    " notebook's own process; if it kills that, the notebook is as before it.",
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

# Those that say how the code below them runs, at the begin of a line.
_RUNS_CODE = re.compile(r"^%%(?:execute_with_scorep|isolated)\b", re.MULTILINE)


def commented(code: str) -> str:
    """The code that a cell runs, with the commands in it as comments: of whole cells that stood
    below each other. In texts, and in what another magic reads, they are no commands."""
    if not _RUNS_CODE.search(code):
        return code
    lines = code.splitlines(keepends=True)
    for number in _first_lines(lines):
        if _RUNS_CODE.match(lines[number]):
            lines[number] = f"# {lines[number]}"
        elif lines[number].startswith("%%"):
            return code
        else:
            break
    with contextlib.suppress(SyntaxError):  # IPython reports it
        for tokens in make_tokens_by_line(lines):
            row, column = tokens[0].start if tokens else (1, 1)
            if not column and 0 < row <= len(lines) and _RUNS_CODE.match(lines[row - 1]):
                lines[row - 1] = f"# {lines[row - 1]}"
    return "".join(lines)


def _first_lines(lines: list[str]) -> t.Iterator[int]:
    """The numbers of those that have any text."""
    return (number for number, line in enumerate(lines) if line.strip())


def register(shell: t.Any) -> None:
    """Make them known to a worker's shell."""
    for name, meaning in COMMANDS.items():
        shell.register_magic_function(_magic(name, meaning), "cell", name)


def _magic(name: str, meaning: str) -> t.Callable[[str, str], None]:
    def command(line: str, cell: str) -> None:
        raise UsageError(f"%%{name} must be the first line of a cell, above other magics.")

    command.__doc__, command.__name__ = meaning, name
    return command
