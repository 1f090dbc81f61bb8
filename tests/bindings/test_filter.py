"""SCOREP_FILTERING_FILE: what a filter file leaves out, and what is wrong with one."""

import subprocess
import sys

import pytest
from trace_reader import AVAILABLE, Trace

pytest.importorskip("holdfast._recorder")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print is not installed")

FILTER = """
# a comment
SCOREP_REGION_NAMES_BEGIN
  EXCLUDE MANGLED *:out* user:quiet
          *.Class:*   # the last that matches decides
  INCLUDE *:out_not *.Class:m[ae]thod
SCOREP_REGION_NAMES_END
SCOREP_FILE_NAMES_BEGIN
  EXCLUDE */left/*  /a\\ b.py
  INCLUDE */left/but_not.py
SCOREP_FILE_NAMES_END
"""


def test_a_filter_file(record):
    program = """
        import os
        with open(directory + ".filter", "w") as file: file.write(RULES)
        os.environ["SCOREP_FILTERING_FILE"] = file.name
        def other(): pass
        def out(): other()
        def out_not(): pass
        class Class:
            def method(self): pass
            def noise(self): self.method()
        for n, name in enumerate(("/left/x.py", "/a b.py", "/left/but_not.py")):
            exec(compile(f"def f{n}(): out_not()", name, "exec"))
        def main():
            for _ in range(3): out()
            out_not(); Class().noise(); f0(); f1(); f2()
            r.region_begin("user:quiet"); other(); assert r.region_end("user:quiet")
            r.region_begin("user:loud"); assert r.region_end("user:loud")
        record(main)
        directory += "-filtered"; os.mkdir(directory)
        record(out)
        del os.environ["SCOREP_FILTERING_FILE"]
        directory += "-not"; os.mkdir(directory)
        record(out)
    """.replace("RULES", repr(FILTER))
    trace = record(program)
    assert trace.nested(prefix="") == (
        "main(other()other()other()out_not()method()out_not()out_not()f2(out_not())other()loud())"
    )
    # The next recording without it records what was left out before.
    assert Trace(f"{trace.directory}-filtered").nested() == "other()"
    assert Trace(f"{trace.directory}-filtered-not").nested() == "out(other())"


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("EXCLUDE *", "line 1: unexpected 'EXCLUDE'"),
        ("SCOREP_FILE_NAMES_BEGIN\nx", "line 2: unexpected 'x'"),
        ("SCOREP_FILE_NAMES_BEGIN EXCLUDE MANGLED x", "line 1: unexpected 'MANGLED'"),
        ("SCOREP_REGION_NAMES_BEGIN\n\nSCOREP_FILE_NAMES_END", "line 3: unexpected"),
    ],
)
def test_a_filter_file_with_an_error(tmp_path, text, wrong):
    from holdfast.scorep import filtering

    (tmp_path / "filter").write_text(text)
    with pytest.raises(RuntimeError, match=wrong):
        filtering.read(tmp_path / "filter")


def test_a_filter_file_that_is_wrong_is_reported(tmp_path):
    (tmp_path / "filter").write_text("INCLUDE")
    for name, said in (("filter", "RuntimeError"), ("none", "FileNotFoundError")):
        program = (
            "import os; from holdfast import _recorder as r\n"
            f"os.environ['SCOREP_FILTERING_FILE'] = {str(tmp_path / name)!r}\n"
            f"try: r.open({str(tmp_path / 'trace')!r})\n"
            "except Exception as error: print(type(error).__name__, r.is_open())"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=False, text=True
        )
        assert done.stdout.split() == [said, "False"], done.stderr
    assert not (tmp_path / "trace").exists()
