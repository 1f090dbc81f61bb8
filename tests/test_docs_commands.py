"""Every block of code on the users' pages is run, and what it puts out is compared.

A page is one notebook and one shell, in a directory of its own, from its top to its end:

- a block of ``console`` has commands behind ``$``, and below each what it puts out;
- a block of ``python`` is a cell, and a block of ``text`` after it what the cell shows;
- a block after a line that is but a file's name in backquotes is that file;
- a comment ``<!-- first: ... -->`` before a block has what the block takes for granted, as a cell.

In what is expected ``...`` stands for any text; figures with a fraction or a unit may be others. A block
that can't run here has a comment before it, ``<!-- not run: why -->``. The tutorial's
notebook is in test_tutorial.py. Slurm is a stand-in: sbatch runs the script, srun starts its ranks.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n\n)?(?:<!-- first: (?P<first>[^>]+) -->\n\n)?(?:^`(?P<file>[\w.-]+)`:\n\n)?"
    r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# What isn't for users, and what is made from the sources and has declarations only.
OTHERS = {"decisions", "control-protocol", "robustness", "glossary", "carried", "tutorial"}
OTHERS.add("write-a-kernel")  # tests/kernel/test_write_a_kernel.py runs it
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.stem not in OTHERS]
NEEDED = {"mpi": ("mpi4py.MPI",), "dask": ("distributed",)}
FIGURE = re.compile(r"[-+]?\d[\d,]*\.\d+|\d[\d,]*(?= ?(?:ms|s|µs|B|KiB|MiB|GiB|%|events)\b)")


@dataclass
class Block:
    """One block of code of a page, and the reason if it isn't run."""

    kind: str
    text: str
    file: str | None
    reason: str | None
    first: str | None


def blocks(page):
    found = BLOCK.finditer(page.read_text("utf-8"))
    return [Block(m["kind"], m["text"], m["file"], m["reason"], m["first"]) for m in found]


def plain(text):
    """Without what varies, and blanks at the ends of lines."""
    return re.sub(" +$", "", FIGURE.sub("#", text.strip("\n")), flags=re.MULTILINE)


def assert_matches(expected, shown):
    """Where `expected` has "..." there may be any text, and in the place of figures others."""
    pattern = ".*".join(re.escape(part) for part in plain(expected).split("..."))
    pattern = re.sub(r"\\\n\.\*$", "(\n.*)?", pattern)  # a last line "...": more lines, or none
    assert re.fullmatch(pattern, plain(shown), re.DOTALL), f"expected:\n{expected}\nshown:\n{shown}"


class Shell:
    """One bash for all commands of a page."""

    def __init__(self, directory):
        self.directory = directory
        programs = directory / "programs"
        programs.mkdir()
        for name, text in STAND_INS.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SCOREP_")},
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOLDFAST_RECORDER": "builtin",
        }
        self.before = "true"  # the exports of the page's earlier blocks

    def run(self, command):
        done = subprocess.run(
            ["bash", "-c", f"{self.before}\n{command}"],
            cwd=self.directory / "work",
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=200,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        if command.startswith("export "):
            self.before = command
        return done.stdout


STAND_INS = {
    "sbatch": '#!/bin/sh\necho "Submitted batch job 4711"\n'
    'SLURM_JOB_ID=4711 SLURM_SUBMIT_DIR=$PWD sh "$1" >job.out\n',
    "srun": "#!/bin/sh\nfor rank in 0 1 2 3; do\n"
    '    SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0 "$@" & pids="$pids $!"\n'
    "done\nfor pid in $pids; do wait $pid || exit 1; done\n",
}


def commands(text):
    """The commands of a block, each with what it is to put out."""
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    assert "".join(f"$ {command}\n{out}" for command, out in found) == text
    return found


def shown_by(outcome):
    """What a cell shows: its streams and results, and the line below it."""
    assert outcome.status == "ok", outcome.content
    texts = [
        m["content"].get("text") or m["content"].get("data", {}).get("text/plain", "")
        for m in outcome.messages
        if m["msg_type"] in ("stream", "execute_result", "display_data")
    ]
    texts += [data["text/plain"] for data in outcome.summaries]
    return "\n".join(text.strip("\n") for text in texts if text.strip("\n"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page, tmp_path, start_kernel):
    for module in NEEDED.get(page.stem, ()):
        pytest.importorskip(module, exc_type=(ImportError, RuntimeError))
    (tmp_path / "work").mkdir()
    shell, kernel, shown = None, None, None
    for block in blocks(page):
        if block.reason:
            continue
        if block.file:
            (tmp_path / "work" / block.file).write_text(block.text)
        elif block.kind == "console":
            shell = shell or Shell(tmp_path)
            for command, expected in commands(block.text):
                assert_matches(expected, shell.run(command))
        elif block.kind == "python":
            kernel = kernel or start_kernel(cwd=tmp_path / "work")
            if block.first:
                assert kernel.run(block.first).status == "ok"
            shown = shown_by(kernel.run(block.text.rstrip("\n"), timeout=200))
        elif block.kind == "text":
            assert shown is not None, f"no cell before\n{block.text}"
            assert_matches(block.text, shown)
            shown = None
        else:
            raise AssertionError(f"{page.name}: nobody runs\n{block.text}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_stand_in_blocks(page):
    """And not in text that is but indented, which nobody would run."""
    text = BLOCK.sub("", page.read_text("utf-8"))
    assert re.findall(r"\n\n(    (?![-*\d]).+)", text) == []


def test_blocks_that_are_not_run_say_why():
    reasons = [block.reason for page in PAGES for block in blocks(page) if block.reason]
    assert reasons and all(len(reason.split()) > 3 for reason in reasons)
