"""A sleeping fork: nobody notices it, it holds what was, and goes on when it is needed."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs clone()")

# A process in the frontend's place, which waits for all, and one that forks.
PROLOGUE = """
import ctypes, os, resource, socket, struct, sys, time
from holdfast import _store
from holdfast.base import fork_hooks
ended, says = os.pipe()
frontend = os.getpid()
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # the parent of forks whose helper has ended
inner = os.fork()
while inner:
    pid, status = os.wait()
    if pid == inner:
        os._exit(os.waitstatus_to_exitcode(status) & 255)
    os.write(says, struct.pack("ii", pid, os.waitstatus_to_exitcode(status)))
near, far = socket.socketpair()
channel = socket.socketpair()[0]
report = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
def sleep(session=None, kept=()):
    pid, _ = fork_hooks.fork_aside(session, ((far.fileno(), channel.fileno()),), frontend, kept)
    if pid:
        far.close()
    else:
        fork_hooks.run_hooks()
    return pid
def end(pid, word=b"wake"):
    near.send(word) if word else near.close()
    while (found := struct.unpack("ii", os.read(ended, 8)))[0] != pid:
        pass
    return found[1]
"""


def run(tmp_path, code, **environment):
    """Run a program of its own, since it forks; what it printed."""
    program = PROLOGUE + textwrap.dedent(code)
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "report")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def test_it_holds_what_was(tmp_path):
    code = """
    session = _store.Session.create()
    value = [1]
    pid = sleep(session)
    if pid == 0:
        os._exit(value[0] + 10)
    value[0] = 2
    print(end(pid), value[0])
    """
    assert run(tmp_path, code) == ["11", "2"]


def test_it_leaves_at_the_end_of_its_channel(tmp_path):
    assert run(tmp_path, "pid = sleep()\nprint(end(pid, word=b'') if pid else 'awake')") == ["0"]


def test_it_is_no_child_of_its_process(tmp_path):
    """Nor is the helper between them: no SIGCHLD comes, and what children used is as it was."""
    code = """
    import signal, subprocess
    memory = bytearray(b"x" * (64 << 20))
    subprocess.run(["true"])
    seen = []
    signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = sleep()
    if pid == 0:
        os._exit(5)
    print(end(pid), len(seen), resource.getrusage(resource.RUSAGE_CHILDREN) == used)
    try:
        os.wait()
    except ChildProcessError:
        print("none")
    """
    assert run(tmp_path, code) == ["5", "0", "True", "none"]


def test_its_signals_are_as_they_were(tmp_path):
    """The helper has an alarm."""
    code = """
    import signal
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    signal.setitimer(signal.ITIMER_REAL, 50)
    pid = sleep()
    if pid == 0:
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
        signal.raise_signal(signal.SIGALRM)
    assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50
    print(end(pid))
    """
    assert run(tmp_path, code) == ["9"]


# A process whose helper waits in a handler of a library's.
WAITS = """
import signal
caller = os.fork()
if not caller:
    libc = ctypes.CDLL(None)
    libc.__register_atfork(ctypes.cast(libc.pause, ctypes.c_void_p), None, None, None)
    try:
        sleep()
    except OSError as error:
        print(error.strerror, flush=True)
    os._exit(0)
children = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
while not (others := {int(pid) for pid in open(children).read().split()} - {caller}):
    pass
(helper,) = others
while open(f"/proc/{helper}/stat").read().rpartition(")")[2].split()[0] != "S":
    pass
"""


def test_a_caller_ends_with_a_helper_that_is_killed(tmp_path):
    """The helper had locks that the caller shares, and would wait for."""
    code = WAITS + "os.kill(helper, signal.SIGKILL); print(os.waitpid(caller, 0)[1])"
    assert run(tmp_path, code) == ["9"]


@pytest.fixture
def named_alarms(tmp_path):
    """The environment of a program whose alarms don't come: who asks for one has its name changed to that."""
    source, library = tmp_path / "alarm.c", tmp_path / "alarm.so"
    source.write_text(
        "#include <stdio.h>\n#include <sys/prctl.h>\n"
        "unsigned alarm(unsigned seconds) {\n"
        "    char name[16];\n"
        '    snprintf(name, sizeof name, "alarm %u", seconds);\n'
        "    prctl(PR_SET_NAME, name, 0, 0, 0);\n"
        "    return 0;\n"
        "}\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    return {"LD_PRELOAD": str(library)}


# Its alarm comes.
ALARM = """
assert open(f"/proc/{helper}/comm").read() == "alarm 10\\n"
os.kill(helper, signal.SIGALRM)
"""


def test_a_helper_ends_by_itself(tmp_path, named_alarms):
    """It waits for what only the process that was killed could do."""
    code = "os.kill(caller, signal.SIGKILL)" + ALARM + "print(os.waitpid(helper, 0)[1])"
    assert run(tmp_path, WAITS + code, **named_alarms) == ["0"]


def test_a_helper_that_waits_too_long_is_an_error(tmp_path, named_alarms):
    ran = run(tmp_path, WAITS + ALARM + "os.waitpid(caller, 0)", **named_alarms)
    assert " ".join(ran) == "a fork can't be made: Connection timed out"


def test_pipes_end_and_files_stay_where_they_are(tmp_path):
    code = """
    read, write = os.pipe()
    file = os.open("/proc/self/exe", os.O_RDONLY); os.lseek(file, 100, 0)
    pid = sleep(kept=(report,))
    if pid == 0:
        place = os.lseek(file, 0, 1)
        try:
            os.write(write, b"x")
        except OSError as error:
            os.write(report, f"{place} {error.errno}".encode())
        os._exit(0)
    os.lseek(file, 7, 0)
    os.close(write)
    print(os.read(read, 1) == b"")  # nobody else holds the other end
    assert end(pid) == 0
    print(open(sys.argv[1]).read())
    """
    assert run(tmp_path, code) == ["True", "100", str(9)]  # EBADF


def test_terminals_end(tmp_path):
    code = """
    import pty
    near_end, far_end = pty.openpty()
    pid = sleep()
    if pid == 0:
        os._exit(0)
    os.close(far_end)
    try:
        print(os.read(near_end, 1))
    except OSError as error:
        print(error.errno)
    end(pid)
    """
    assert run(tmp_path, code) == [str(5)]  # EIO: nobody else holds the other end


def test_files_are_opened_when_it_wakes_only(tmp_path):
    """Until then a program that was written can run, and a watch sees nothing of the fork's."""
    code = """
    import subprocess, tempfile
    libc = ctypes.CDLL(None)
    directory = os.path.dirname(sys.argv[1])
    written = open(os.path.join(directory, "program"), "wb")
    written.write(open("/bin/true", "rb").read()); written.flush(); os.chmod(written.name, 0o755)
    nameless = tempfile.TemporaryFile(dir=directory); nameless.write(b"text"); nameless.flush()
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, directory.encode(), 0x20 | 0x8 | 0x10) > 0  # open, closed
    pid = sleep(kept=(report,))
    if pid == 0:
        nameless.write(b"more"); nameless.flush(); nameless.seek(0)
        os.write(report, nameless.read() + str(written.tell()).encode())
        os._exit(0)
    try:
        events = os.read(watch, 1000)
    except BlockingIOError:
        events = b""
    size = written.tell()
    written.close()
    print(events, subprocess.run([written.name]).returncode)
    assert end(pid) == 0
    assert open(sys.argv[1]).read() == f"textmore{size}", open(sys.argv[1]).read()
    """
    assert run(tmp_path, code) == ["b''", "0"]


def test_a_session_whose_process_lives_is_not_succeeded(tmp_path):
    code = """
    session = _store.Session.create()
    try:
        _store._succeed(session)
        print("it is its own")
    except _store.Error as error:
        print(error)
    """
    assert run(tmp_path, code) == ["it", "is", "its", "own"]


def test_wrong_arguments():
    from holdfast import _store

    for moves, kept in (((), ()), (((1, 2),) * 17, ()), (((1, 2),), (1,) * 17)):
        with pytest.raises((ValueError, _store.Error), match="descriptors"):
            _store._fork("sleeper", None, moves, os.getppid(), kept)


def test_locks_of_our_own_threads_are_free_in_it(tmp_path):
    """A thread counts what the history writes, and holds the lock of the count at the fork. A thread
    of the notebook's prints, and holds a stream's."""
    code = """
    import signal, threading
    from jupyter_client.session import Session
    from holdfast.base import usage
    from holdfast.worker import output
    from holdfast.worker.ipython import application
    from holdfast.worker.parents import Parents
    class Held:
        def __enter__(self): held.set(); time.sleep(60)
        def __exit__(self, *error): pass
    held = threading.Event()
    stream = output.Stream(None, Parents(), "stdout", 1)
    def hold():
        with usage.aside._lock, stream._lock, Held():
            pass
    application.Forks.goes_on = True
    app = application.WorkerApp.__new__(application.WorkerApp)
    app.streams, app.session = [stream], Session()
    app.session.pid = os.getpid()
    os.register_at_fork(after_in_child=app._after_fork)
    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    pid = sleep()
    if pid == 0:
        signal.alarm(60)
        usage.aside.io
        stream.flush()
        os._exit(7)
    print(end(pid), flush=True)
    os._exit(0)
    """
    assert run(tmp_path, code) == ["7"]


# ---- hooks of os.register_at_fork

HOOKS = """
import threading
lock, log, parent = threading.Lock(), [], os.getpid()
def note(what):
    log.append(what)
    hex(sum(range(100_000)))  # long enough to be asked for the interpreter's lock
def hooks(name, before=None):
    os.register_at_fork(
        before=before or (lambda: note("before " + name)),
        after_in_parent=lambda: note("parent " + name),
        after_in_child=lambda: note("child " + name),
    )
hooks("a"); hooks("b")
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
def tell():
    os.write(report, ",".join(log).encode())
    import colorsys  # the import lock is free
    assert not lock.locked() and not __import__("_imp").lock_held()
def told():
    return open(sys.argv[1]).read()
"""
IN_FORK = "before b,before a,child a,child b"
IN_PARENT = "before b,before a,parent a,parent b"


def run_clean(tmp_path, code):
    """As `run`; nothing is printed on stderr, as an error in a hook would be."""
    program = PROLOGUE + HOOKS + textwrap.dedent(code)
    command = [sys.executable, "-c", program, str(tmp_path / "report")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_hooks_run_in_a_fork_that_goes_on_and_in_its_process(tmp_path):
    code = """
    pid, _ = _store._fork("cell", None, ((far.fileno(), channel.fileno()),), frontend, ())
    if pid == 0:
        tell()
        os._exit(0)
    print(end(pid))
    print(told())
    print(*log, sep=",")
    """
    assert run_clean(tmp_path, code) == ["0", IN_FORK, IN_PARENT]


def test_no_hook_runs_in_the_process_that_a_fork_sleeps_of(tmp_path):
    """Each runs in the fork, once it wakes. At the fork another thread has asked for the interpreter's
    lock: a hook that gave it up would wait for that thread, which isn't there."""
    code = """
    import functools, operator
    def spin():
        while True: pass
    threading.Thread(target=spin, daemon=True).start()
    wait = functools.partial(ctypes.PyDLL(None).usleep, 20_000)  # the switch interval is 5 ms
    def fork(*hooks):
        made = functools.partial(
            _store._fork, "sleeper", None, ((far.fileno(), channel.fileno()),), frontend, (report,), *hooks
        )
        return [*map(operator.call, (wait, made))][1]  # no look at requests in between
    pid, _ = fork_hooks._quietly(fork)
    if pid == 0:
        fork_hooks.run_hooks()
        tell()
        os._exit(0)
    assert not log and not lock.locked() and not __import__("_imp").lock_held()
    print(end(pid), told(), flush=True)
    os._exit(0)
    """
    assert run_clean(tmp_path, code) == ["0 " + IN_FORK]


def test_no_hook_runs_in_the_process_that_a_child_tries_for(tmp_path):
    code = """
    pid = fork_hooks.fork_child()
    if pid == 0:
        fork_hooks.run_hooks()
        tell()
        os._exit(0)
    print(os.waitpid(pid, 0)[1], told(), log)
    assert not lock.locked() and not __import__("_imp").lock_held()
    """
    assert run_clean(tmp_path, code) == [f"0 {IN_FORK} []"]


def test_hooks_of_a_fork_that_was_not_made_are_there_still(tmp_path):
    code = """
    try:
        fork_hooks.fork_aside(None, ((-1, -2),), frontend, ())
    except OSError:
        pid = os.fork()
        if pid == 0:
            tell()
            os._exit(0)
        print(os.waitpid(pid, 0)[1], told())
        print(*log, sep=",")
    """
    assert run_clean(tmp_path, code) == ["0 " + IN_FORK, IN_PARENT]


@pytest.mark.parametrize("sleeps", [True, False], ids=["sleeping", "at once"])
def test_a_hook_that_waits_for_ever_is_left_out(tmp_path, sleeps):
    """A thread has the lock, or a cell that was stopped. After the fork the lock is free, as its
    hook makes it; errors name the hook."""
    code = f"""
    import signal, threading
    fork_hooks.HOOK_SECONDS = 0.1
    lock, said = threading.Lock(), []
    def noted(unraisable):
        said.append((unraisable.exc_type.__name__, unraisable.object.__name__))
    sys.unraisablehook = noted
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    os.register_at_fork(after_in_child=lambda: said.append("the next"))
    lock.acquire()
    if {sleeps}:
        pid = sleep(kept=(report,))
    else:
        with fork_hooks.limited():
            pid, _ = _store._fork("cell", None, ((far.fileno(), channel.fileno()),), frontend, ())
    if pid == 0:
        os.write(report, repr((said, lock.locked(), signal.getsignal(signal.SIGALRM))).encode())
        os._exit(0)
    print(end(pid), open(sys.argv[1]).read())
    print(said, lock.locked())
    """
    timeout = "('HookTimeout', 'acquire')"
    in_fork = f"0 ([{timeout}, 'the next'], False, <Handlers.SIG_DFL: 0>)"
    in_parent = "[] True" if sleeps else f"[{timeout}] False"
    assert " ".join(run(tmp_path, code)) == f"{in_fork} {in_parent}"


def test_an_alarm_of_the_users_stays(tmp_path):
    code = """
    import signal
    signal.signal(signal.SIGALRM, print)
    signal.setitimer(signal.ITIMER_REAL, 50)
    with fork_hooks.limited():
        assert signal.getsignal(signal.SIGALRM) is print
    print(0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50)
    """
    assert run(tmp_path, code) == ["True"]
