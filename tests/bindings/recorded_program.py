"""Run a program under the recorder, in a fresh interpreter."""

import subprocess
import sys
import textwrap

from trace_reader import Trace

PRELUDE = """
import sys, os
from holdfast import _recorder as r
directory = sys.argv[1]
def record(function, **options):
    r.open(directory, **options)
    r.enable()
    try:
        function()
    finally:
        r.disable()
        global result
        result = r.close()
"""


def record_in(tmp_path, program, name="trace"):
    """The trace of a program that calls the prelude's ``record``, and what it printed."""
    directory = tmp_path / name
    directory.mkdir()
    script = tmp_path / f"{name}.py"
    script.write_text(PRELUDE + textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, str(script), str(directory)],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    trace = Trace(directory)
    trace.output, trace.script, trace.directory = done.stdout, script, directory
    return trace
