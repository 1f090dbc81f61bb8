"""Programs in Python name output that can't be written, as `holdfast ls` does (tests/tool)."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [["doctor", "--short"], ["demo"]])
def test_a_programs_output_that_cant_be_written_is_named(tmp_path, words):
    name, *rest = words
    command = [sys.executable, "-m", f"holdfast.{name}", *rest]
    with open("/dev/full", "wb") as file:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=file, stderr=subprocess.PIPE, text=True, check=False
        )
    said = f"holdfast {name}: can't write the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)
