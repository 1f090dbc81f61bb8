"""Leaves out imports of ipykernel's that a worker's start can do without.

Half of what ipykernel imports is for programs that a worker is not: ZeroMQ, jupyter_client's managers,
launchers and provisioners, TLS, dateutil's parser of dates, a debugger. A worker needs the protocol's
Session, and little else. So while the fork server imports what its forks need, such modules are replaced by
stand-ins. So are names that ipykernel takes from them at its own import and doesn't use in a worker: a
function is found when it is called, a class when something could be an instance of it. If a stand-in is asked
for any other name, it imports the module and asks that.

jupyter_client is a package whose `__init__` has not run: it is there as soon as one of its submodules is.
Code that asks the package itself for a name has the rest imported then. To ipykernel it looks as if there was
no debugger, since we have our own (debugger.py).

No stand-in stays for others to find: `import zmq` or `ipykernel.debugger` in a cell imports the real one.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import sys
import threading
import types
import typing as t


# -- stand-ins -------------------------------------------------------------------------------


def _real(name: str) -> types.ModuleType:
    """The module itself. The stand-ins for it, and for others of its package, aren't found any
    more."""
    if isinstance(sys.modules.get(name), _StandIn):
        package = name.partition(".")[0]
        for other, module in list(sys.modules.items()):
            if isinstance(module, _StandIn) and other.partition(".")[0] == package:
                del sys.modules[other]
    return importlib.import_module(name)


class _StandIn(types.ModuleType):
    """For a module, with what ipykernel takes from it while it is imported."""

    def __init__(self, name: str, names: dict[str, t.Any]):
        super().__init__(name)
        self._names = names

    def __getattr__(self, name: str) -> t.Any:
        if sys.modules.get(self.__name__) is self:
            if name in self._names:
                return self._names[name]
            if name == "__path__" and not _is_package(self.__name__):
                raise AttributeError(name)  # `from this import name` looks
        return getattr(_real(self.__name__), name)


class _Named(type):
    """A class that stands for one of the same name, in traits and before isinstance()."""

    def _real(cls) -> t.Any:
        return getattr(_real(cls.__module__), cls.__name__)

    def __instancecheck__(cls, value: object) -> bool:
        module = sys.modules.get(cls.__module__)
        if module is None or isinstance(module, _StandIn):
            return False  # there can't be any
        return isinstance(value, cls._real())

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, cls._real())

    def __call__(cls, *args: t.Any, **kwargs: t.Any) -> t.Any:
        return cls._real()(*args, **kwargs)

    def __getitem__(cls, item: t.Any) -> t.Any:
        return cls  # in an annotation


class _Made:
    """The object that a class, called without arguments, would have made."""

    def __init__(self, made_by: _Named):
        self._made_by = made_by

    def __getattr__(self, name: str) -> t.Any:
        made = self.__dict__["made"] = self.__dict__.get("made") or self._made_by()
        return getattr(made, name)


def _named(module: str, name: str) -> t.Any:
    return _Named(name, (), {"__module__": module})


def _call(module: str, name: str) -> t.Any:
    def call(*args: t.Any, **kwargs: t.Any) -> t.Any:
        return getattr(_real(module), name)(*args, **kwargs)

    return call


# The modules, and what ipykernel and jupyter_client take from them by name.
_STAND_INS: dict[str, dict[str, t.Any]] = {
    "asyncio.sslproto": {},
    "dateutil.parser": {
        "isoparse": _call("dateutil.parser", "isoparse"),
        "parse": _call("dateutil.parser", "parse"),
    },
    "dateutil.tz": {
        "tzlocal": _call("dateutil.tz", "tzlocal"),
        "tzutc": _call("dateutil.tz", "tzutc"),
    },
    "packaging.version": {"Version": _call("packaging.version", "Version")},
    "platform": {},
    "ssl": {},
    "uuid": {},
    "zmq": {
        "Context": _named("zmq", "Context"),
        "MessageTracker": lambda: _Made(_named("zmq", "MessageTracker")),
        "DEALER": 5,  # as libzmq has them
        "NOBLOCK": 1,
        "REQ": 3,
        "SUB": 2,
        "Socket": _named("zmq", "Socket"),
    },
    "zmq.asyncio": {},
    "zmq.eventloop": {},
    "zmq.eventloop.zmqstream": {"ZMQStream": _named("zmq.eventloop.zmqstream", "ZMQStream")},
}


def _is_package(name: str) -> bool:
    return any(other.startswith(f"{name}.") for other in _STAND_INS)


def _is_there(name: str) -> bool:
    """A Python without TLS has no module `ssl`, and asyncio asks for it."""
    needs_tls = name in ("ssl", "asyncio.sslproto")
    return not needs_tls or importlib.machinery.PathFinder.find_spec("_ssl") is not None


@contextlib.contextmanager
def _in_place_of(modules: dict[str, types.ModuleType]) -> t.Iterator[None]:
    """Let these be found, but for those that are there already."""
    ours = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name, module in ours.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


# -- jupyter_client --------------------------------------------------------------------------

# Packages, and where what ipykernel takes of them by name is found without the rest.
_PACKAGES = {"jupyter_client": {"write_connection_file": "jupyter_client.connect"}}

_lock = threading.RLock()
_running: set[str] = set()  # packages whose `__init__` runs now


class _Package(types.ModuleType):
    """A package whose `__init__` runs when a name is missed."""

    def __getattr__(self, name: str) -> t.Any:
        place = _PACKAGES[self.__name__].get(name)
        if place is not None:
            return getattr(importlib.import_module(place), name)
        if name.startswith("__") and name != "__all__":  # the import system's, and inspect's
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._complete()
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __dir__(self) -> t.Iterable[str]:
        self._complete()
        return sorted(self.__dict__)

    def __reduce__(self) -> t.Any:
        return importlib.import_module, (self.__name__,)

    def _complete(self) -> None:
        with _lock:
            if type(self) is _Package and self.__name__ not in _running:
                _running.add(self.__name__)
                try:
                    self.__loader__.exec_module(self)  # type: ignore
                    self.__class__ = types.ModuleType  # type: ignore[assignment]
                finally:
                    _running.remove(self.__name__)


class _Loader:
    """Makes a package and leaves it empty."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        spec = module.__spec__
        module.__loader__ = spec.loader = spec.loader_state  # type: ignore[union-attr]


class _Finder:
    """Finds those packages as the path does, for `_Loader`."""

    def find_spec(
        self, name: str, path: t.Any = None, target: t.Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader_state, spec.loader = spec.loader, _Loader()  # type: ignore[assignment]
        return spec


# -- while ipykernel is imported -------------------------------------------------------------


@contextlib.contextmanager
def postponed() -> t.Iterator[None]:
    """While ipykernel is imported."""
    finder = _Finder()
    stand_ins: dict[str, types.ModuleType] = {
        name: _StandIn(name, names) for name, names in _STAND_INS.items() if _is_there(name)
    }
    sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
    try:
        with _in_place_of(stand_ins):
            yield
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]


def without_debugger() -> contextlib.AbstractContextManager[None]:
    """While ipykernel's kernel is made, which looks whether there is one."""
    absent = types.ModuleType("ipykernel.debugger")
    vars(absent).update(_is_debugpy_available=False, Debugger=object)
    return _in_place_of({absent.__name__: absent})
