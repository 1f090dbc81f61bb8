"""Startup files and lines of the profile: they run once, and what they make is the notebook's, also if they end with an error."""

import pytest

HEADS = {
    run: f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated", "in-process")
}
FILE = """
from __future__ import annotations
import json, os, sys, warnings
print("started")
values = [0]
_hidden = [0]
def count() -> missing: return len(values)
json.mine = "set"
os.environ["FROM_STARTUP"] = "set"
sys.path.append("/from/startup")
warnings.simplefilter("ignore", ResourceWarning)
with open(os.environ["PIDS"], "a") as file: print(os.getpid(), file=file)
nobody_made_this
"""
LINES = "c = get_config()\nc.InteractiveShellApp.exec_lines = [{!r}]\n"
SEEN = (
    "values.append(1); _hidden.append(1); count(), json.mine, os.environ['FROM_STARTUP'],"
    " sys.path.count('/from/startup'), ResourceWarning in [one[2] for one in warnings.filters]"
)


@pytest.fixture(params=["startup/first.py", "ipython_kernel_config.py"])
def notebook(request, start_kernel, tmp_path):
    file = tmp_path / "ipython" / "profile_default" / request.param
    file.parent.mkdir(parents=True)
    file.write_text(FILE if request.param.startswith("startup") else LINES.format(FILE))
    return start_kernel(
        env={"IPYTHONDIR": str(tmp_path / "ipython"), "PIDS": str(tmp_path / "pids")}
    )


def test_they_run_once_and_are_seen_everywhere(notebook, tmp_path):
    assert "values" not in notebook.run("%who").stream()
    said, count = notebook.run("pid = os.getpid()").stream(), 1
    for head in ("", *HEADS.values(), *HEADS.values()):
        outcome, count = notebook.run(head + SEEN), count + 1
        assert outcome.result == f"({count}, 'set', 'set', 1, True)", head
        said += outcome.stream()
    assert (
        notebook.run("len(values), len(_hidden), pid == os.getpid()").result
        == f"({count}, {count}, True)"
    )
    assert (tmp_path / "pids").read_text() == notebook.run("pid").result + "\n"
    assert said.count("started") <= 1
