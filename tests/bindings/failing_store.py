"""What test_failing_calls.py makes fail: a notebook's variables on their way to the store and back.

    python tests/bindings/failing_store.py --sample N   a sample: about N points of each scenario
    python tests/bindings/failing_store.py all          every point
    python tests/bindings/failing_store.py NAME ...     every point of some scenarios

A namespace is in one of two versions, in all of its values: plain data, arrays that are copied, born in
the arena, and mapped with few or all pages changed, a view, lists that share objects, a class with
an instance, and a function. The process of a scenario does one thing while a call fails, and checks that
it got what it wanted or an error with a name; that its own values are whole; that a second try works;
that no later commit is passed over; and that it has lost no descriptor, mapping or block. Another
process checks that the store has the old version or the new one, also after a kill.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import tempfile
import typing as t

import numpy

import failing_python
from holdfast import _store

OLD, NEW, NEXT = 1, 2, 3
_SET_SUBREAPER = 36  # prctl
_ARENA_BYTES = 65536  # arrays from which on are born in the arena

_FIRST = """
mapped, wide = numpy.zeros(40_000), numpy.zeros(12_000)
view = mapped[10:]
"""
_CELL = """
number, text, table = {v}, "{v}" * 100, {{"a": [{v}] * 50}}
copied, born = numpy.full(5_000, {v}), numpy.full(30_000, {v})
mapped[::16384] = {v}
wide[:] = {v}
left = [{v}, "left"]
right = {{"left": left}}
class Point:
    version = {v}
    def __init__(self):
        self.version = {v}
point = Point()
def answer():
    return {v}
if {v} == 2:
    only_new = {v}
    vars().pop("only_old", None)
else:
    only_old = {v}
    vars().pop("only_new", None)
"""
Values = dict[str, t.Any]


def write(values: Values, version: int) -> None:
    """Run the cell of a version."""
    exec(_CELL.format(v=version), values)


def version_of(values: Values) -> int:
    """The version of a namespace; all values have it."""
    v = values["number"]
    assert values["text"] == str(v) * 100
    assert values["table"] == {"a": [v] * 50}
    for name in ("copied", "born", "wide"):
        assert (values[name] == v).all(), name
    assert (values["mapped"][::16384] == v).all()
    assert values["view"].base is not None and values["view"][16374] == v
    assert values["right"]["left"] is values["left"] == [v, "left"] or values["left"][0] != v
    assert values["left"] == [v, "left"] and values["right"]["left"] is values["left"]
    assert values["Point"].version == v == values["point"].version
    assert type(values["point"]) is values["Point"]
    assert values["answer"]() == v
    assert ("only_new" in values, "only_old" in values) == (v == NEW, v != NEW)
    return v


def stored_version(fd: int, state: int = 0) -> int:
    """As another process sees it: the names, and the process state of the same version or this one."""
    with _store.Session.from_fd(fd) as session:
        session.verify()
        names, values = _store.Names(session), _namespace()
        bound = names.bind(values)
        assert not bound["absent"], bound["absent"]
        version = version_of(values)
        assert names.extra("state") == {"version": state or version}
    return version


def _namespace() -> Values:
    return {"__name__": "__main__", "numpy": numpy}


class Stage:
    """One process on a session, with a namespace."""

    def __init__(self, fd: int) -> None:
        self.session = _store.Session.from_fd(fd)
        self.names = _store.Names(self.session)
        self.values = _namespace()
        self.report: t.Any = None

    def bind(self) -> None:
        """Bind what isn't bound yet."""
        self.report = self.names.bind(self.values)
        if self.report["absent"]:
            self.report = self.names.bind(self.values, names=list(self.report["absent"]))

    def save(self) -> None:
        """Prepare a commit."""
        self.report = self.names.save(
            self.values,
            hidden={"__name__", "numpy", "__builtins__"},
            extra={"state": {"version": self.values["number"]}},
        )

    def commit(self) -> None:
        """All of a commit, as the frontend and the main worker do it."""
        self.save()
        if self.report["unserializable"]:  # each with its name and a reason
            raise _store.Error(str(self.report["unserializable"]))
        if self.report["prepared"] is not None:
            self.names.published(self.session.publish(self.report["prepared"]))
        self.session.privatize(threads_stopped=True)

    def commit_version(self, version: int) -> None:
        """A later cell, and its commit."""
        write(self.values, version)
        self.commit()
        assert stored_version(self.session.fd) == version

    def close(self) -> None:
        """Give up all."""
        self.values.clear()
        self.names = self.report = None
        _store.disable_numpy_allocator()
        gc.collect()
        self.session.close()


def check_named(error: BaseException | None) -> None:
    """An error says what failed. A SystemError is the interpreter's own, which has lost a MemoryError."""
    named = _store.Error, OSError, MemoryError, ImportError, SystemError
    assert error is None or isinstance(error, named), repr(error)
    assert error is None or str(error) or type(error) is MemoryError


def make_base() -> _store.Session:
    """A session with some older versions, and the old one."""
    session = _store.Session.create(capacity=64 << 20, memfd=True)
    stage = Stage(session.fd)
    exec(_FIRST, stage.values)
    for version in (5, 6, OLD):
        stage.commit_version(version)
    stage.close()
    return session


class Process(Stage):
    """The process in which calls fail."""

    def __init__(self, fd: int, calls: failing_python.Calls) -> None:
        super().__init__(fd)
        self.calls = calls

    def begin(self, version: int | None = None) -> None:
        """Have the old version, or go on to another one without a commit."""
        _store.enable_numpy_allocator(self.session, _ARENA_BYTES)
        self.bind()
        assert version_of(self.values) == OLD
        if version is not None:
            write(self.values, version)

    def attempt(self, action: t.Callable[[], t.Any]) -> tuple[t.Any, BaseException | None]:
        """Do it while a call fails."""
        answer, error = self.calls.attempt(action)
        check_named(error)
        if error is not None:
            assert self.calls.seen.failed, error
            error.__traceback__ = error.__context__ = None
        return answer, error

    def ends_with(self, version: int) -> None:
        """The store has this version, whatever happens from here on."""
        assert stored_version(self.session.fd) == version
        self.calls.seen.version = version

    def go_on(self, again: t.Callable[[], None]) -> None:
        """The second try of a commit works, and so do those that follow: each has all that changed."""
        assert version_of(self.values) == NEW
        again()
        assert stored_version(self.session.fd) == NEW
        for version in (OLD, NEW):
            self.commit_version(version)
        self.ends_with(NEW)


def commit(self: Process) -> None:
    """Save, publish, note, privatize."""
    self.begin(NEW)
    _, error = self.attempt(self.commit)
    assert error or stored_version(self.session.fd) == NEW
    self.go_on(self.commit)


def save(self: Process) -> None:
    """Prepare only; the store has the old version."""
    self.begin(NEW)
    self.attempt(self.save)
    assert stored_version(self.session.fd) == OLD
    self.go_on(self.commit)


def published(self: Process) -> None:
    """What follows the publishing, after which there is no way back."""
    self.begin(NEW)
    self.save()
    generation = self.session.publish(self.report["prepared"])

    def note() -> None:
        self.names.published(generation)
        self.session.privatize(threads_stopped=True)

    self.attempt(note)
    assert stored_version(self.session.fd) == NEW
    for version in (OLD, NEW):  # a record that says otherwise would pass over the old one
        self.commit_version(version)
    self.ends_with(NEW)


def bind(self: Process) -> None:
    """A new process attaches and binds all."""
    fd = self.session.fd

    def begin() -> None:
        self.session = _store.Session.from_fd(fd)
        self.names = _store.Names(self.session)
        self.bind()

    first = self.session
    _, error = self.attempt(begin)
    if error is not None:
        self.bind()
    assert not self.report["absent"]
    assert version_of(self.values) == OLD
    self.ends_with(OLD)
    for version in (NEW, OLD):
        self.commit_version(version)
    self.ends_with(OLD)
    first.close()


def adopt(self: Process) -> None:
    """Another process has published the new version."""
    self.begin()
    other = Stage(self.session.fd)
    other.bind()
    other.commit_version(NEW)
    other.close()
    self.calls.seen.version = NEW

    def take() -> None:
        self.report = self.names.adopt(self.values)

    _, error = self.attempt(take)
    if error is not None:
        take()
    for name in self.report["absent"]:
        self.values.pop(name, None)
    if self.report["absent"]:
        self.report = self.names.bind(self.values, names=list(self.report["absent"]))
        assert not self.report["absent"]
    assert version_of(self.values) == NEW
    self.commit()
    assert stored_version(self.session.fd) == NEW
    for version in (OLD, NEW):
        self.commit_version(version)
    self.ends_with(NEW)


def load(self: Process) -> None:
    """A file's names replace all."""
    self.begin()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "saved")
        _store._save_file(self.session, path)
        self.commit_version(NEW)
        self.calls.seen.version = NEW
        _, error = self.attempt(lambda: _publish_file(self.session, path))
        assert stored_version(self.session.fd, state=NEW) == (NEW if error else OLD)
        if error:
            _publish_file(self.session, path)
        self.names.adopt(self.values)
        assert version_of(self.values) == OLD
        for version in (NEW, OLD):
            self.commit_version(version)
        self.ends_with(OLD)


def save_file(self: Process) -> None:
    """Over an older file: that one, or the new one."""
    self.begin()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "saved")
        _store._save_file(self.session, path)
        self.commit_version(NEW)
        self.calls.seen.version = NEW
        _, error = self.attempt(lambda: _store._save_file(self.session, path))
        assert os.listdir(directory) == ["saved"] or error
        _publish_file(self.session, path)
        self.names.adopt(self.values)
        found = version_of(self.values)  # also new, if there was no memory to report it
        assert found == NEW or (error and found == OLD)
        for version in (OLD, NEW):
            self.commit_version(version)
        self.ends_with(NEW)


def _publish_file(session: _store.Session, path: str) -> None:
    session.publish(_store._load_file(session, path)[0])


class Sleeper:
    """The descriptors of a fork that sleeps, and its end."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.channel, other = socket.socketpair()
        other.close()

    def fork(self, session: _store.Session) -> int:
        """As rollback.py does it; 0 in the fork when it wakes."""
        moves = ((self.far.fileno(), self.channel.fileno()),)
        return _store._fork("sleeper", session, moves, os.getppid(), ())[0]

    def close(self) -> None:
        """A fork that sleeps ends with its channel."""
        for end in (self.near, self.far, self.channel):
            end.close()


def fork(self: Process) -> None:
    """A fork that sleeps and isn't needed; its parent goes on."""
    self.begin()
    sleeper = Sleeper()
    pid, error = self.attempt(lambda: sleeper.fork(self.session))
    if pid == 0:
        os._exit(3)  # nobody woke it
    self.calls.disarm()
    assert version_of(self.values) == OLD
    write(self.values, NEW)
    if error:
        pid = sleeper.fork(self.session)
        assert pid > 0
    sleeper.close()
    self.commit()
    for version in (OLD, NEW):
        self.commit_version(version)
    self.ends_with(NEW)


def succeed(self: Process) -> None:
    """A fork that takes the place of its parent, which died in a cell."""
    self.begin()
    sleeper = Sleeper()
    pid = sleeper.fork(self.session)
    if pid:
        sleeper.far.close()
        write(self.values, NEW)
        self.save()  # is never published
        sleeper.near.send(b"wake")
        os._exit(0)
    _, error = self.attempt(lambda: _store._succeed(self.session))
    if error:
        _store._succeed(self.session)
    assert version_of(self.values) == OLD
    self.session.privatize(threads_stopped=True)
    for version in (NEW, OLD):
        self.commit_version(version)
    self.ends_with(OLD)


SCENARIOS: dict[str, t.Callable[[Process], None]] = {
    "commit": commit,
    "save": save,
    "published": published,
    "bind": bind,
    "adopt": adopt,
    "save-file": save_file,
    "load-file": load,
    "fork": fork,
    "succeed": succeed,
}


def run(calls: failing_python.Calls, name: str) -> None:
    """One point: a session, the process, and what another process finds."""
    base = make_base()

    def live() -> None:
        before = failing_python.holdings(calls)
        process = Process(base.fd, calls)
        SCENARIOS[name](process)
        process.close()
        after = failing_python.holdings(calls)
        if before != after and calls.fault.objects:
            os._exit(failing_python.HELD)
        assert before == after, (before, after)

    ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1, 0, 0, 0)  # the parent of forks that are left
    failing_python.in_child(live)
    with contextlib.suppress(ChildProcessError):
        while True:
            status = os.wait()[1]
            code = os.waitstatus_to_exitcode(status)
            if code in (failing_python.OTHERS_ENDED, failing_python.HELD):
                os._exit(code)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            if status != 0 and (calls.fault.err or not killed):
                os.write(2, f"ended with {status:#x}\n".encode())
                os._exit(2)
    version = stored_version(base.fd)
    wanted = (calls.seen.version,) if calls.seen.version else (OLD, NEW)
    assert version in wanted, (version, wanted)
    stage = Stage(base.fd)
    stage.bind()
    stage.commit_version(NEXT)
    stage.close()
    base.close()


def warm() -> None:
    """Import all that is imported on the way."""
    base = make_base()
    stage, other = Stage(base.fd), Stage(base.fd)
    stage.bind()
    other.bind()
    other.commit_version(NEW)
    stage.names.adopt(stage.values)
    stage.commit_version(OLD)
    other.close()
    stage.close()
    base.close()


def scenario(name: str) -> t.Callable[[failing_python.Calls], None]:
    """The scenario with this name, for the driver."""
    return lambda calls: run(calls, name)


if __name__ == "__main__":
    sys.exit(failing_python.main(__file__, {name: scenario(name) for name in SCENARIOS}, warm))
