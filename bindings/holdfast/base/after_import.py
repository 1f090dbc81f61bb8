"""Calls a function once a module has been imported, by whatever code, and keeps values that wait for that.

Any cell may be the first to import a library. So a finder in `sys.meta_path` waits for the import, and is removed
afterwards. A recording leaves out the functions of this module, but shows the calls below them, which are the import
(see holdfast.scorep). So this module must have only finders, and functions that they call.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys
import typing as t

from holdfast.base import sentences


def call_once_imported(module: str, call: t.Callable[[], object]) -> None:
    """Call a function once: now if the module is imported, else when its import has ended."""
    if module in sys.modules:
        call()
    else:
        call_after_import(module, call)


class Waiting:
    """Values for modules that this process hasn't imported yet. They are passed on as they came, and set after the
    import.

    Parameters
    ----------
    put : callable
        Sets the value of a key, whose module is there.
    module_of : callable
        Returns the name of a key's module.
    """

    def __init__(
        self, put: t.Callable[[t.Any, t.Any], object], module_of: t.Callable[[t.Any], str] = str
    ):
        self.values: dict[t.Any, t.Any] = {}
        self._put, self._module_of = put, module_of
        self._awaited: set[str] = set()

    def set(self, key: t.Any, value: t.Any) -> None:
        """Set it now, or when the module's import has ended."""
        module = self._module_of(key)
        self.values.pop(key, None)
        if module in sys.modules:
            self._put(key, value)
            return
        self.values[key] = value
        if module not in self._awaited:
            self._awaited.add(module)
            call_after_import(module, functools.partial(self._arrived, module))

    def _arrived(self, module: str) -> None:
        self._awaited.discard(module)
        for key in [key for key in self.values if self._module_of(key) == module]:
            try:
                self._put(key, self.values.pop(key))
            except Exception as error:  # it must not make the import fail, which has ended well
                print(f"holdfast: {sentences.not_carried_over(module, error)}", file=sys.stderr)


def call_after_import(module: str, call: t.Callable[[], object]) -> None:
    """Call a function once, when the import of a module that isn't there yet has ended."""
    sys.meta_path.insert(0, _AfterImport(module, call))


def watch_imports(
    is_wanted: t.Callable[[t.Any], bool], call: t.Callable[[t.Any], None]
) -> t.Callable[[], None]:
    """Call a function with each module whose spec is wanted, after its import. Returns a function
    that ends this. `is_wanted` is called with each spec that is found, and may give it another
    loader. Our own finders that are asked first are still asked first."""
    others = [one for one in sys.meta_path if not type(one).__module__.startswith("holdfast")]
    watch = _EachImport(is_wanted, call)
    sys.meta_path.insert(sys.meta_path.index(others[0]) if others else len(sys.meta_path), watch)

    def end() -> None:
        if watch in sys.meta_path:
            sys.meta_path.remove(watch)

    return end


def _find(finder: object, name: str, path: t.Any, target: t.Any) -> t.Any:
    """The spec that the finders after this one find."""
    for other in sys.meta_path[sys.meta_path.index(finder) + 1 :]:  # type: ignore[arg-type]
        find_spec = getattr(other, "find_spec", None)
        spec = None if find_spec is None else find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


class _EachImport:
    """Calls a function with each module that has been imported."""

    def __init__(self, is_wanted: t.Callable[[t.Any], bool], call: t.Callable[[t.Any], None]):
        self._is_wanted = is_wanted
        self._module_call = call

    def find_spec(self, name, path=None, target=None):
        if self not in sys.meta_path:
            return None
        spec = _find(self, name, path, target)
        if hasattr(getattr(spec, "loader", None), "exec_module") and self._is_wanted(spec):
            spec.loader = _Loader(self, spec)
        return spec

    def begin(self) -> bool:
        return True

    def call(self, module: t.Any) -> None:
        self._module_call(module)


class _AfterImport:
    """Calls a function once after the import of a module. Then it removes itself."""

    def __init__(self, module: str, call: t.Callable[[], object]):
        self._module = module
        self._call = call

    def find_spec(self, name, path=None, target=None):
        if name != self._module or self not in sys.meta_path:
            return None
        spec = _find(self, name, path, target)
        if not hasattr(getattr(spec, "loader", None), "exec_module"):
            return spec
        spec.loader = _Loader(self, spec)
        return spec

    def begin(self) -> bool:
        """Whether this is the first import. find_spec() may also be called without an import."""
        first = self in sys.meta_path
        if first:
            sys.meta_path.remove(self)
        return first

    def call(self, module: t.Any) -> None:
        self._call()


class LoaderOfText(importlib.machinery.SourceFileLoader):
    """Runs a module from this text, even if its file has another one by now."""

    def __init__(self, loader: importlib.machinery.SourceFileLoader, text: bytes):
        super().__init__(loader.name, loader.path)
        self._loader, self._text = loader, text

    def get_code(self, fullname):
        return self.source_to_code(self._text, self.path)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        try:
            super().exec_module(module)
        except BaseException as error:
            _leave_out_caller(error)
            raise


class _Loader:
    """A module's own loader. After the import it makes the waiting call, and the own loader is set
    again."""

    def __init__(self, waits: _AfterImport | _EachImport, spec: t.Any):
        self._waits, self._loader, self._spec = waits, spec.loader, spec

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def get_code(self, fullname):
        """runpy calls it: it runs the module itself, and keeps the spec."""
        self._spec.loader = self._loader
        return self._loader.get_code(fullname)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        counts = self._waits.begin()
        try:
            self._loader.exec_module(module)
        except BaseException as error:
            _leave_out_caller(error)
            raise
        if counts:
            self._waits.call(module)


def _leave_out_caller(error: BaseException) -> None:
    """Drop our own function from the traceback of an import's error."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
