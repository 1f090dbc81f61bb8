"""Lines of the history are written in few transactions, and none is lost."""

import subprocess
import sys

import pytest

pytest.importorskip("IPython")

PROGRAM = """
import os, sqlite3, sys, threading, time
from IPython.core.interactiveshell import InteractiveShell
from holdfast.worker.ipython.history import History

written = []  # lines of each transaction

class Counted(History):
    def _write(self, lines, conn):
        written.append(len(lines))
        assert self.db_input_cache_lock.acquire(timeout=60)  # as a cell does, which waits for no disk
        self.db_input_cache_lock.release()
        super()._write(lines, conn)

def await_lines(count):
    file = sqlite3.connect(sys.argv[1])
    while file.execute("SELECT count(*) FROM history").fetchone() != (count,):
        time.sleep(0.01)
    file.close()

def sessions():
    file = sqlite3.connect(sys.argv[1])
    count = file.execute("SELECT count(*) FROM sessions").fetchone()
    file.close()
    return count[0]

idle = Counted(shell=InteractiveShell(), hist_file=sys.argv[1])
idle.end_session()  # in which nothing ran
history = Counted(shell=InteractiveShell(), hist_file=sys.argv[1])
assert sessions() == 0
for number in range(1, 21):
    history.store_inputs(number, f"line {number}")
    time.sleep(0.002)  # so that a thread that is woken would write
await_lines(20)
assert 0 < len(written) <= 10 and sum(written) == 20, written
assert sessions() == history.session_number == 1

pid = os.fork()  # IPython ends the thread before it
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
history.store_inputs(21, "after a fork")
await_lines(21)

class Flag:
    waits = 0

    def wait(self, _seconds):
        self.waits += 1
        if self.waits == 1:
            history.store_output(30)  # the cell ends meanwhile
        return False

threading.current_thread().save_flag = flag = Flag()
history.writeout_cache(sqlite3.connect(sys.argv[1]))  # as the thread does
assert flag.waits == 2
del threading.current_thread().save_flag

history.store_inputs(22, "just now")
assert [line for _, _, line in history.get_tail(2, include_latest=True)] == ["after a fork", "just now"]
history.end_session()
await_lines(22)
history.new_session()
assert sessions() == 1 and history.session_number == sessions() == 2

shell = InteractiveShell()
built = Counted(shell=shell, hist_file=":memory:")  # as in the fork server
built.store_inputs(1, "before")
built.keep()
built.store_inputs(2, "after")
assert built.input_hist_raw == ["", "before", "after"] and built.save_thread.is_alive()
file = sqlite3.connect(os.path.join(shell.profile_dir.location, "history.sqlite"))
while not file.execute("SELECT * FROM history WHERE source = 'after'").fetchall():
    time.sleep(0.01)

# A fork that waits for the lines to be written, while their writer asks for the session's number.
waits = threading.Event()

class Watched:
    # A lock that says that somebody waits for it.
    lock = threading.Lock()
    def __enter__(self):
        waits.set()
        self.lock.acquire()
    def __exit__(self, *error):
        self.lock.release()

def rest():
    with busy.at_rest():
        pass

busy = Counted(shell=InteractiveShell(), hist_file=sys.argv[1])
busy.db_input_cache_lock = lock = Watched()
with lock:
    waits.clear()
    resting = threading.Thread(target=rest, daemon=True)
    resting.start()
    waits.wait()
    asking = threading.Thread(target=lambda: busy.session_number, daemon=True)
    asking.start()
    asking.join(60)
    assert not asking.is_alive(), "it waits for a lock whose holder waits for its own"
resting.join(60)
assert not resting.is_alive()

# Its thread waits for more lines while a fork, or IPython's hook for it, has taken it from its manager.
torn = Counted(shell=InteractiveShell(), hist_file=sys.argv[1])
thread, asked = torn.save_thread, threading.Event()

class Lines(list):
    # Lines that are counted: the thread is about to wait.
    def __len__(self):
        if threading.current_thread() is thread and not asked.is_set():
            torn.save_thread = None
            asked.set()
        return super().__len__()

torn.db_input_cache = Lines()
torn.store_inputs(1, "in a fork's moment")
assert asked.wait(60)
torn.save_thread = thread
torn.store_inputs(2, "after it")
while not sqlite3.connect(sys.argv[1]).execute("SELECT * FROM history WHERE source = 'after it'").fetchall():
    assert thread.is_alive()
    time.sleep(0.01)

locked = sqlite3.connect(sys.argv[1], isolation_level=None)
locked.execute("BEGIN EXCLUSIVE")
late = Counted(shell=InteractiveShell(), hist_file=":memory:")
late.hist_file, late.connection_options = sys.argv[1], {"timeout": 0}
late.db = sqlite3.connect(sys.argv[1], timeout=0, check_same_thread=False)
assert late.session_number == 0 and not late.enabled  # the log says so
"""


def test_lines_that_follow_each_other_are_written_at_once(tmp_path):
    file = str(tmp_path / "history.sqlite")
    environment = {"IPYTHONDIR": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PROGRAM, file], check=True, timeout=60, env=environment)


AGAIN = """
import sqlite3, sys
from IPython.core.interactiveshell import InteractiveShell
from holdfast.worker.ipython.history import History

first = History(shell=InteractiveShell(), hist_file=sys.argv[1])
for number in (1, 2, 3):
    first.store_inputs(number, f"line {number}")
first.writeout_cache()
again = History(shell=InteractiveShell(), hist_file=sys.argv[1])  # a fork goes on in the place of the first one
again.session_number = first.session_number
for number, text in enumerate(sys.argv[2:], 1):
    if number != 3:
        again.store_inputs(number, text)
again.store_inputs(3, sys.argv[4])
assert again.input_hist_raw == again.input_hist_parsed == ["", *sys.argv[2:]]
again.writeout_cache()
print(again.session_number)
for line in sqlite3.connect(sys.argv[1]).execute("SELECT session, line, source FROM history ORDER BY 1, 2"):
    print(*line)
"""


def run_again(place, *lines):
    """What is said, and what the file has then, when these lines follow three others under the same numbers."""
    command = [sys.executable, "-c", AGAIN, str(place / "history.sqlite"), *lines]
    environment = {"IPYTHONDIR": str(place), "PATH": "", "HOME": str(place)}
    run = subprocess.run(
        command, check=True, timeout=60, env=environment, capture_output=True, text=True
    )
    return run.stdout.splitlines()


def test_a_line_that_is_there_already_is_no_conflict(tmp_path):
    """The process that ran the cell first has written it, and died."""
    lines = [f"line {number}" for number in range(1, 6)]
    expected = [f"1 {number} line {number}" for number in range(1, 6)]
    assert run_again(tmp_path, *lines) == ["1", *expected]


def test_another_line_under_a_number_is_one(tmp_path):
    said, *others = run_again(tmp_path, "line 1", "other", "line 3", "line 4")
    assert said.startswith("ERROR! Session/line number was not unique")
    first = [f"1 {number} line {number}" for number in range(1, 4)]
    assert others == ["2", *first, "2 2 other", "2 4 line 4"]
