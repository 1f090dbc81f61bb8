"""Tries in a forked child whether encoding or decoding a value ends the process.

To encode or decode an object of the user's own class may run the user's code (`__reduce_ex__`,
`__setstate__`, anything that a pickle calls), which may exit, crash or hang. The notebook's process has more to
lose than this object: every object that can't be encoded, and all changes since the last commit. So a forked
child does it first. If the child dies, or isn't done in time, the object is *quarantined*. If it can't be
encoded, it stays where it is, and isn't tried again while it lives. If it can't be decoded, it stays in the
store. All other values are carried.

The child is forked in the middle of the pickler's work, when the first object with such code is met. It goes
on from there to the end of the value. So nothing has to be collected before, and a value without such objects
costs nothing. The child counts these objects in shared memory. The parent meets them in the same order, so it
knows at which one the child died. A child costs some milliseconds, and the parent repeats its work.

Only code of the user's own is tried: of the notebook, and of modules outside of the standard library and
site-packages. Pickles with such objects are marked, so that the reader knows. Any other value that may end a
process is named in shared memory while it is encoded or decoded (engine/turn.c), and the frontend reads that
after the death.

Two other ways were rejected. A fork for each commit takes 5 ms, and most commits need none. A commit in two
parts, the harmless values first, doesn't help: the process would still die, and lose the objects that can't be
encoded.
"""

import contextlib
import copyreg
import ctypes
import mmap
import os
import signal
import sys
import time
import typing
import weakref

from holdfast import _store
from holdfast.base import fork_hooks

SECONDS = 30.0
_DIED, _HUNG = 1 << 16, 1 << 17  # as HF_CAUSE_* in holdfast/store.h
_PR_SET_PDEATHSIG = 1
_LOADING, _SAVING = "loading it ", "saving it "
# Methods that encoding an object calls, and those that an unpickler calls.
_HOOKS = """__reduce_ex__ __reduce__ __getstate__ __getnewargs_ex__ __getnewargs__ __setstate__
__new__ __getattr__ __getattribute__ __setitem__ __iter__ append extend items""".split()
# Libraries whose threads don't exist in a child: their calls may wait there for ever.
_NOT_IN_CHILDREN = ("polars", "tensorflow", "jax")


class Quarantined(Exception):
    """Encoding or decoding this object has ended a process."""


class _Process:
    """What this process tries in children: encoding, decoding, or nothing."""

    session = None
    encodes = decodes = False
    is_library = staticmethod(lambda path: True)
    child = None  # in a child: the words in memory that it shares with its parent


# Classes that run no code of the user's own. The others are looked at for each value.
quiet: set[type] = set()
_own_modules = {"__main__": True}
# Objects that aren't tried again, by their ids: a function that returns the object, and the reason.
_kept: dict[int, tuple[typing.Callable[[], object], str]] = {}
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def configure(session, *, encodes, decodes, is_library):
    """Say whether values are tried from now on when they are encoded, and when they are decoded."""
    allowed = hasattr(os, "fork") and os.environ.get("HOLDFAST_TRIALS", "1") != "0"
    _Process.session = session
    _Process.encodes = encodes and allowed and session is not None
    _Process.decodes = decodes and allowed and session is not None
    _Process.is_library = staticmethod(is_library)


def forget():
    """Let everything be tried again."""
    _kept.clear()


def seconds():
    """How long the child may take for one value."""
    try:
        given = float(os.environ.get("HOLDFAST_VALUE_SECONDS", ""))
    except ValueError:
        return SECONDS
    return given if 0 < given < 1e6 else SECONDS


def is_quarantine(reason):
    """Whether the reason why a value isn't there is one of this module's."""
    return _LOADING in reason


def is_kept(reason):
    """Whether the reason is that an object could not be saved, and so stays where it is."""
    return _SAVING in reason


def refusal(cause):
    """Why an entry in quarantine isn't decoded."""
    return _LOADING + _words(cause)


def left():
    """Why this process loads nothing: processes before it have ended at that."""
    return _LOADING + "ended the processes that tried to load all variables"


def _words(cause):
    if cause & _HUNG:
        return "took too long, and was ended"
    status = cause & 0xFFFF
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            return f"ended a process (signal {number}, {signal.Signals(number).name})"
        return f"ended a process (signal {number})"
    return f"ended a process (exit status {os.WEXITSTATUS(status)})"


# ---- which objects run code of the user's own ------------------------------------------------


def is_own(module):
    """Whether a module, by its name, is the user's own."""
    own = _own_modules.get(module)
    if own is None:
        path = getattr(sys.modules.get(module), "__file__", None)
        own = _own_modules[module] = isinstance(path, str) and is_users_file(path)
    return own


def is_users_file(path):
    """Whether a file is of no library."""
    return not _Process.is_library(path)


def _module_of(hook, base):
    """The module of a function's code. Functions that `namedtuple` makes name it only in their
    globals."""
    space = getattr(getattr(hook, "__func__", hook), "__globals__", None)
    module = space.get("__name__") if type(space) is dict else getattr(hook, "__module__", None)
    return module if isinstance(module, str) else base.__module__


def is_own_code(hook, cls):
    """Whether a function that is an attribute of a class is code of the user's own."""
    return is_own(_module_of(hook, cls))


def has_own_hooks(cls):
    """Whether pickling or unpickling an instance runs code of the user's own."""
    reducer = copyreg.dispatch_table.get(cls)
    if reducer is not None and is_own(getattr(reducer, "__module__", None)):
        return True
    return any(
        is_own(_module_of(base.__dict__[hook], base))
        for base in type.mro(cls)[:-1]
        for hook in _HOOKS
        if hook in base.__dict__
    )


class Turn:
    """One value that is pickled for the store.

    Attributes
    ----------
    hooked : bool
        Whether an object with code of the user's own was met.
    """

    __slots__ = ("hooked", "_own", "_count", "_last", "_reason")

    def __init__(self):
        self.hooked = False
        self._own = {}  # class: whether it has hooks
        self._count = 0  # how many objects with hooks were met
        self._last = -1  # the one at which a child ended; 0: none; -1: not tried yet
        self._reason = ""

    def meet(self, obj, cls):
        """An object is about to be pickled. Raises Quarantined if it must not be."""
        own = self._own.get(cls)
        if own is None:
            own = self._own[cls] = has_own_hooks(cls)
            if not own and cls.__module__ != "__main__":
                quiet.add(cls)
        if own:
            self._meet_hooked(obj)

    def is_quiet(self, cls):
        """Whether the objects of a class that was met run no code of the user's own."""
        return cls in quiet or self._own.get(cls) is False

    def _meet_hooked(self, obj):
        self.hooked = True
        self._count += 1
        known = _kept.get(id(obj))
        if known is not None and known[0]() is obj:
            raise Quarantined(known[1])
        if _Process.child is not None:
            _Process.child[0] = self._count
            return
        if self._last < 0 and _Process.encodes:
            self._try()
        if self._last == self._count and _Process.child is None:
            _keep(obj, self._reason)
            raise Quarantined(self._reason)

    def _try(self):
        self._last = 0
        cause, count = _fork_and_wait(self._count)
        if cause:
            self._last, self._reason = max(count, self._count), _SAVING + _words(cause)

    def finish(self):
        """All objects of the value were met. If a child met more of them, it ended at one of
        those."""
        if self._last > self._count:
            raise Quarantined(self._reason)


def _keep(obj, reason):
    """Note that this object isn't tried again as long as it lives."""
    key = id(obj)
    try:
        found = weakref.ref(obj, lambda _: _kept.pop(key, None))
    except TypeError:

        def found():
            return obj

    _kept[key] = found, reason


# ---- children --------------------------------------------------------------------------------


def end_child():
    """End the child: it has come to the end of its value, with or without an exception."""
    if _Process.child is not None:
        _Process.child[1] = 1
        os._exit(0)


def try_to_load(load):
    """Let a child read a marked pickle first. Raises Quarantined if the child ended at that."""
    if not _Process.decodes or _Process.child is not None:
        return
    cause, _ = _fork_and_wait(0)
    if _Process.child is not None:
        try:
            kept = load()  # noqa: F841 - it must not die here, which would run its __del__
        finally:
            end_child()
    if cause:
        _store._quarantine(_Process.session, cause)
        raise Quarantined(refusal(cause))


def _fork_and_wait(count):
    """In the parent: how the child ended, and its last object. 0 if it ended well, or could not be
    tried."""
    if any(name in sys.modules for name in _NOT_IN_CHILDREN):
        return 0, 0
    cause = 0
    for _ in range(2):  # twice: a child may be killed by mistake, or for lack of memory
        shared = mmap.mmap(-1, mmap.PAGESIZE)
        words = memoryview(shared).cast("Q")
        words[0] = count
        parent = os.getpid()
        try:
            pid = fork_hooks.fork_child()
        except OSError:
            return 0, 0
        if pid == 0:
            _become_child(parent, words)
            return 0, 0
        cause = _wait(pid, words)
        if cause != _DIED | signal.SIGKILL:
            break
    _store._renew_turn(_Process.session)
    return cause, words[0]


def _become_child(parent, words):
    """Write nothing, die with the parent, and leave no core dump."""
    _Process.child = words
    try:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        fork_hooks.run_hooks()
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except BaseException:
        end_child()


def _wait(pid, words):
    """How the child ended. 0 if it came to the end of its value."""
    deadline, pause = time.monotonic() + seconds(), 0.0002
    while True:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # a signal handler of the user's has waited for it
            found, status = pid, 1 << 8
        if found:
            return 0 if words[1] else _DIED | status & 0xFFFF
        if time.monotonic() > deadline:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            return _HUNG
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
