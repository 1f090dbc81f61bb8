"""Another process of the user opens the notebook's session and commits: at any moment, by the library or
around it. Nothing of the notebook's is lost, and nothing happens in silence."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import effort
import pytest
from takeup import killed
from waiting import until

from holdfast.store import AccessError, Session

RUNS = ["plain", "in-process", "forked", "isolated"]
# Tries to commit, once for each line that it reads. `force`: as a program that knows nothing of owners.
STRANGER = """
import sys
from holdfast.store import Error, Session
path, is_forced = sys.argv[1], sys.argv[2] == "force"
FLAGS = 984  # hfi_superblock.flags, its last word
with open("/dev/shm" + path, "r+b") as file, Session.open(path) as session:
    for line in sys.stdin:
        if is_forced:
            file.seek(FLAGS)
            assert file.read(8) in (b"\\1" + bytes(7), bytes(8))
            file.seek(FLAGS)
            file.write(bytes(8))
            file.flush()
        try:
            session.refresh()
            session["data"], session["theirs"] = "foreign", line
            print("published", session.commit(), flush=True)
        except Error as error:
            print(type(error).__name__, error, flush=True)
"""
GATE = """
import os
data = []
def gate():  # the test goes on, and the cell when that lets it
    open("began", "w").close()
    open("goes_on").close()
"""


class Stranger:
    """A process that has the kernel's session open."""

    def __init__(self, kernel, *arguments):
        self.name = f"/{kernel.segment().name}"
        command = [sys.executable, "-c", STRANGER, self.name, *(arguments or ["asks"])]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._count = 0
        self._process = subprocess.Popen(command, text=True, bufsize=1, **pipes)

    def commit(self):
        """What a commit brought, each of another value."""
        self._count += 1
        self._process.stdin.write(f"{self._count}\n")
        return self._process.stdout.readline().strip()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(timeout=60) == 0


@contextmanager
def strange(kernel, *arguments):
    stranger = Stranger(kernel, *arguments)
    try:
        yield stranger
    finally:
        stranger.close()


@pytest.fixture(scope="module")
def notebook(shared, tmp_path_factory):
    """One kernel for the file, with gates."""
    place = tmp_path_factory.mktemp("gates")
    kernel = shared.start(cwd=place)
    for name in ("began", "goes_on"):
        os.mkfifo(place / name)
    assert kernel.run(GATE).status == "ok"
    kernel.place = place
    return kernel


def head(run):
    return "" if run == "plain" else f"%%execute_with_scorep --run={run}\n"


def in_cell(kernel, run, act, code):
    """Run `code` in a cell, and `act` in the middle of it; the cell's outcome."""
    sent = kernel.client.execute(f"{head(run)}{code}\ngate()", allow_stdin=False)
    open(kernel.place / "began").close()
    act()
    open(kernel.place / "goes_on", "w").close()
    return kernel.finish(sent)


def stored(kernel, *names):
    kernel.settle()
    with Session.open(f"/{kernel.segment().name}") as session:
        return [session.get(name) for name in names]


def refuses(kernel, stranger):
    said = stranger.commit()
    assert said.startswith(f"AccessError only process {kernel.pid}, which owns"), said
    assert "hand its token to that process, or use a session of your own" in said


@pytest.mark.parametrize("run", RUNS)
def test_a_commit_in_the_middle_of_a_cell_is_refused(notebook, run):
    with strange(notebook) as stranger:
        outcome = in_cell(
            notebook, run, lambda: refuses(notebook, stranger), f"data.append({run!r})"
        )
        assert outcome.status == "ok", outcome.content
        assert outcome.stream("stderr") == ""
        refuses(notebook, stranger)  # idle
    assert notebook.run("data[-1]").result == repr(run)
    data, theirs = stored(notebook, "data", "theirs")
    assert data[-1] == run and theirs is None


def test_a_commit_during_a_rollback_is_refused(notebook):
    pid = int(notebook.run("data.append('kept'); os.getpid()").result)

    def act():
        refuses(notebook, stranger)
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in notebook.workers())
        refuses(notebook, stranger)

    with strange(notebook) as stranger:
        sent = notebook.client.execute(f"{head('in-process')}data.append('lost')\ngate()")
        open(notebook.place / "began").close()
        act()
        outcome = notebook.finish(sent)
        refuses(notebook, stranger)
    assert outcome.content["ename"] == "CellDied"
    assert notebook.run("data[-1]").result == "'kept'"
    assert stored(notebook, "data")[0][-1] == "kept"


def test_a_commit_that_is_behind_is_refused_as_well(notebook):
    """Not as one that has to adopt something first."""
    with Session.open(f"/{notebook.segment().name}") as session:
        session["theirs"] = 1
        assert notebook.run(head("isolated") + "data.append('newer')").status == "ok"
        with pytest.raises(AccessError, match=f"only process {notebook.pid}, which owns"):
            session.commit()


def test_a_stranger_can_neither_end_nor_keep_the_session(notebook):
    with Session.open(f"/{notebook.segment().name}") as session:
        assert session.info()["owner_publishes"]
        with pytest.raises(AccessError, match="can publish or destroy it"):
            session.destroy()
    assert stored(notebook, "data")


def test_a_process_that_takes_the_session_up_owns_it(start_kernel):
    kernel = start_kernel()
    kernel.run("x = 1")
    kernel.settle()
    before = kernel.pid
    with strange(kernel) as stranger:
        refuses(kernel, stranger)
        os.kill(before, signal.SIGSTOP)  # it lives
        refuses(kernel, stranger)
        killed(kernel)
        assert kernel.pid != before
        refuses(kernel, stranger)
    kernel.run("x += 1")
    assert stored(kernel, "x", "theirs") == [2, None]


def test_a_notebook_lists_its_variables_alone(notebook):
    code = "import warnings, json; warnings.simplefilter('ignore'); json.indent = 3; mine = data"
    assert notebook.run(code).status == "ok"
    notebook.settle()
    with Session.open(f"/{notebook.segment().name}") as session:
        assert all(map(str.isidentifier, session)) and {"data", "mine"} < set(session)
        assert len(session) == len(list(session))
        assert session["_json:indent"] == 3 and "_json:indent" in session.all_names()
        assert "_:warnings.filters" in session.all_names()


# ---- around the library ----


TAKEN_BACK = "which only its kernel may. That was taken back"


@pytest.mark.parametrize("run", RUNS)
def test_what_is_published_around_the_library_is_taken_back(notebook, run):
    said = []
    with strange(notebook, "force") as stranger:
        outcome = in_cell(
            notebook, run, lambda: said.append(stranger.commit()), f"data.append({run!r})"
        )
        assert said[0].startswith("published "), said
    told = outcome.stream("stderr") + str(outcome.content.get("evalue", ""))
    later = notebook.run("data[-1], len(data), 'theirs' in globals()")
    told += later.stream("stderr")
    assert TAKEN_BACK in told or "another process published" in told, told
    last, count, is_there = eval(later.result)
    assert not is_there
    if outcome.status == "ok":
        assert last == run
    else:
        assert outcome.content["ename"] == "CommitError" and run in ("forked", "isolated")
    # Saving goes on, in each way.
    for again in RUNS:
        outcome = notebook.run(f"{head(again)}data.append('more')")
        assert outcome.status == "ok", outcome.content
    data, theirs = stored(notebook, "data", "theirs")
    assert data[-4:] == ["more"] * 4 and len(data) == count + 4 and theirs is None


def named(told):
    """The foreign generations that the frontend's lines name, in their order."""
    pairs = re.findall(r"has published generations? (\d+)(?: to (\d+))?", told)
    return [n for first, last in pairs for n in range(int(first), int(last or first) + 1)]


def test_one_line_names_all_that_came_before_the_frontend_looked(notebook):
    said = []

    def act():
        os.kill(notebook.pid, signal.SIGSTOP)
        said.extend(stranger.commit() for _ in range(3))
        os.kill(notebook.pid, signal.SIGCONT)

    with strange(notebook, "force") as stranger:
        told = in_cell(notebook, "plain", act, "data.append('plain')").stream("stderr")
    assert told.count(TAKEN_BACK) == 1
    assert [f"published {number}" for number in named(told)] == said and len(said) == 3


# ---- at random moments ----


TURNS = [*RUNS, "rollback", "idle"]


class Model:
    """What the notebook has to have."""

    def __init__(self, kernel, seed):
        self.kernel, self.chance, self.data = kernel, random.Random(seed), {}  # by the cell
        self.count = 0
        self.took = dict.fromkeys(TURNS, 0.04)  # s, the last one of each kind
        assert kernel.run("import os; data = []").status == "ok"

    def turn(self, stranger):
        """A cell, and a stranger's commit at some moment of it; what both said."""
        kind = self.chance.choice(TURNS)
        moment = self.chance.random()
        if kind == "idle":
            self.kernel.settle()
            return kind, stranger.commit(), self.kernel.run("None")
        run = "in-process" if kind == "rollback" else kind
        self.count += 1
        code = f"{head(run)}data.append({self.count})"
        if kind == "rollback":
            code += "\nos.kill(os.getpid(), 9)"
        begin = time.monotonic()
        sent = self.kernel.client.execute(code, allow_stdin=False)
        time.sleep(moment * self.took[kind])
        said = stranger.commit()
        outcome = self.kernel.finish(sent)
        self.took[kind] = min(time.monotonic() - begin, 2)
        if outcome.status == "ok":
            self.data[outcome.content["execution_count"]] = self.count
        for cell in lost(outcome.content.get("evalue", "")):
            del self.data[cell]
        return kind, said, outcome

    def check(self):
        assert eval(self.kernel.run("data").result) == [*self.data.values()]
        assert stored(self.kernel, "data", "theirs") == [[*self.data.values()], None]


def lost(told):
    """The cells that an error names, since what they changed is lost: protection is for longer ones."""
    named = re.search(r"\(run (In.*?) again", told)
    pairs = re.findall(r"In\[(\d+)\](?: to In\[(\d+)\])?", named[1]) if named else []
    return [n for first, last in pairs for n in range(int(first), int(last or first) + 1)]


def test_commits_at_random_moments_are_refused(start_kernel):
    kernel = start_kernel()
    model = Model(kernel, 28)
    with strange(kernel) as stranger:
        for _ in range(100 if effort.IS_LONG else 12):
            kind, said, outcome = model.turn(stranger)
            assert said.startswith("AccessError"), said
            if kind == "rollback":
                assert outcome.content["ename"] == "CellDied", outcome.content
            else:
                assert outcome.status == "ok" and outcome.stream("stderr") == "", outcome.content
    model.check()
    killed(kernel)
    assert eval(kernel.run("data").result) == [*model.data.values()]


def test_generations_at_random_moments_are_taken_back(start_kernel, tmp_path):
    kernel = start_kernel()
    model, published = Model(kernel, 29), []
    with strange(kernel, "force") as stranger:
        for _ in range(100 if effort.IS_LONG else 12):
            kind, said, outcome = model.turn(stranger)
            if said.startswith("published"):
                published.append(int(said.split()[1]))
            if outcome.status != "ok":
                wanted = {"CommitError", "CellDied"} if kind == "rollback" else {"CommitError"}
                assert outcome.content["ename"] in wanted, outcome.content
    model.check()
    told = (tmp_path / "stderr").read_text()
    assert published and named(told) == published, told
