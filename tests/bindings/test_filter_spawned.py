"""A filter's patterns mean the same in processes that multiprocessing spawns."""

import pytest
from trace_reader import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")

PROGRAM = """
import multiprocessing
class Box:
    def get(self): pass
def noise(): pass
def job(x):
    Box().get(); noise()
if __name__ == "__main__":
    job(0)
    with multiprocessing.get_context("{method}").Pool(1) as pool:
        pool.map(job, range(2)); pool.close(); pool.join()
"""
EXCLUDE = "  EXCLUDE *\n"


@pytest.mark.parametrize(
    "method, rules, expected",
    [
        (
            "spawn",
            EXCLUDE + "  INCLUDE __main__:*",
            {"<module>": 2, "Box": 2, "job": 3, "noise": 3},
        ),
        ("spawn", EXCLUDE + "  INCLUDE __main__.Box:*", {"get": 3}),
        ("spawn", EXCLUDE + "  INCLUDE __mp_main__:job", {"job": 2}),
        ("forkserver", EXCLUDE + "  INCLUDE *\n  EXCLUDE __main__:[!j]*", {"job": 3, "get": 3}),
    ],
)
def test_names_of_the_program(record_script, tmp_path, method, rules, expected):
    (tmp_path / "rules").write_text(
        f"SCOREP_REGION_NAMES_BEGIN\n{rules}\nSCOREP_REGION_NAMES_END\n"
    )
    trace = record_script(PROGRAM.format(method=method), SCOREP_FILTERING_FILE="rules")
    called = [name.rpartition(":")[2] for name in trace.calls(prefix="__m")]
    assert {name: called.count(name) for name in called} == expected
