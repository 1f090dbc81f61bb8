"""Objects of modules that must not be copied: each process has its own.

A sentinel (`dataclasses.MISSING`, `UNSET = object()` of the user's own module) has nothing but its identity.
`os.environ`, Matplotlib's `rcParams` and PyTorch's generator are objects that their libraries look at. Their
contents are carried as settings of the process (worker/settings/). A variable that refers to such an object is
pickled as the names of its module and attribute. The process that reads them binds its own object.

A library's constants (`rich.box.SQUARE`) have contents, which the notebook may have changed. So the contents are
pickled, too. The constant of the other process is used only if its contents are the same.

Lists and dicts aren't pickled, but encoded with all that they hold. A variable may be a list or dict of `sys`
(`from sys import path`) or the dict of a module. Then an object that is pickled as module and attribute is saved
in its place (`stand_ins`).
"""

from __future__ import annotations

import functools
import importlib
import os
import site
import struct
import sys
import types
import typing as t

from holdfast import _store
from holdfast.carry import patches, restoring, trial

# By the name of the type: the places of objects whose contents are carried as settings.
_PLACES = {
    "RcParams": (("matplotlib", "rcParams"),),
    "ColormapRegistry": (("matplotlib", "colormaps"),),
    "Random": (("random", "_inst"), ("sympy.core.random", "rng")),
    "RandomState": (("numpy.random.mtrand", "_rand"),),
    "Generator": (("torch", "default_generator"),),
    "DictWrapper": (("pandas", "options"),),
    "Manager": (("logging", "Logger.manager"),),
    "_Sentinel": tuple(
        ("joblib.parallel", f"default_parallel_config.{name}")
        for name in "backend n_jobs verbose temp_folder max_nbytes mmap_mode prefer require".split()
    ),
    "Context": (("decimal", "DefaultContext"), ("decimal", "BasicContext"), ("decimal", "ExtendedContext")),
}  # fmt: skip
# Where something else stands for them now, a variable has them all the same.
_ENVIRONMENTS = {"environ": os.environ, "environb": os.environb}
_CLASSES_OF_ENVIRONMENTS = frozenset(map(type, _ENVIRONMENTS.values()))
_NOT = frozenset(("__main__", "__mp_main__"))
# Lists and dicts whose contents are carried as settings. Those of other modules are found by
# comparison (worker/settings/differences.py), also if a variable refers to them.
_HOLDERS = tuple(
    (module, name)
    for module, names in {
        "sys": "path argv modules meta_path path_hooks path_importer_cache",
        "warnings": "filters",
        "linecache": "cache",
        "inspect": "modulesbyfile",
        "gc": "callbacks",
        "copyreg": "dispatch_table",
        "sqlite3": "adapters converters",
    }.items()
    for name in names.split()
)


_known: dict[int, tuple[str, str]] = {}  # places of other such objects, by id
# Classes whose objects are none of these but by their ids: a table has thousands of columns.
_ordinary: set[type] = set()


def know(module: str, attribute: str) -> None:
    """Note that a module has such an object there: its contents are carried as a setting."""
    value = _read(sys.modules[module], attribute)
    if value is not None and not isinstance(value, type):
        _known[id(value)] = module, attribute


def reduce(value: t.Any, cls: type) -> t.Any:
    """How such an object is pickled. None if it isn't one."""
    found = reduce_by_place(value, cls)
    if found is not None or cls in _ordinary:
        return found
    places = _PLACES.get(cls.__qualname__, ())
    for module, attribute in places:
        if module in sys.modules and _read(sys.modules[module], attribute) is value:
            return find, (module, attribute)
    if not places and cls.__module__ not in _NOT and _has_no_state(value, cls):
        place = _sentinels.place_of(value)
        if place is not None:
            return find, place
    names = _names_in(cls)
    if names:
        return _reduce_constant(value, cls, names)
    # Is kept, so that no class of the notebook is; and its objects have more than an identity.
    if cls in _constants and not places and cls is not object and not _may_lack_state(cls):
        _ordinary.add(cls)
    return None


def reduce_by_place(value: t.Any, cls: type) -> t.Any:
    """How it is pickled if it is known by its place, whatever its class is; else None."""
    place = _known.get(id(value))
    if place is not None and _read(sys.modules.get(place[0]), place[1]) is value:
        return find, place
    if cls in _CLASSES_OF_ENVIRONMENTS:
        for name, one in _ENVIRONMENTS.items():
            if value is one:
                return environment, (name,)
    name = cls.__module__
    if type(name) is str and sys.modules.get(name) is value:  # a module has put it in its own place
        return importlib.import_module, (name,)
    return None


def reducer_for(cls: type) -> t.Callable[[t.Any, type], t.Any]:
    """What does for the objects of this class as `reduce`, as fast as can be."""
    is_notebooks = cls.__module__ in _NOT and cls.__qualname__ not in _PLACES
    return reduce_by_place if is_notebooks or cls in _ordinary else reduce


def environment(name: str) -> t.Any:
    """What `os` began with under this name: the environment of the process that decodes it."""
    return _ENVIRONMENTS[name]


def is_sentinel(value: t.Any) -> bool:
    """Whether a value has nothing but its identity, and is pickled as its place in a module."""
    cls = type(value)
    return (
        cls.__module__ not in _NOT
        and _has_no_state(value, cls)
        and _sentinels.place_of(value) is not None
    )


def find(module: str, attribute: str) -> t.Any:
    """The object that this process has at that place."""
    return functools.reduce(_step, attribute.split("."), importlib.import_module(module))


def _step(holder: t.Any, name: str) -> t.Any:
    return holder[name] if type(holder) is dict else getattr(holder, name)


class _Place:
    """A module and an attribute. It is decoded to the object that the module has there."""

    __slots__ = ("place",)

    def __init__(self, module: str, attribute: str):
        self.place = module, attribute

    def __reduce__(self) -> tuple[t.Any, ...]:
        return find, self.place


_place = functools.cache(_Place)  # one for each place: names that share it are seen to share it


def stand_ins(namespace: dict[str, t.Any]) -> dict[int, _Place]:
    """For variables that are lists and dicts of modules: what is saved instead, by their ids."""
    values = [one for one in list(namespace.values()) if type(one) is list or type(one) is dict]
    holders = {
        id(_read(sys.modules[module], name)): _place(module, name)
        for module, name in _HOLDERS
        if module in sys.modules
    }
    found = {id(one): holders[id(one)] for one in values if id(one) in holders}
    for one in [one for one in values if type(one) is dict and "__name__" in one]:
        module = module_of(one)
        if module is not None and getattr(module, "__spec__", None) is not None:
            found[id(one)] = _place(module.__name__, "__dict__")
    return found


def module_of(value: t.Any) -> types.ModuleType | None:
    """The module that a dict belongs to; None for the notebook's own."""
    name = value.get("__name__") if type(value) is dict else None
    module = sys.modules.get(name) if type(name) is str and name not in _NOT else None
    return module if type(module) is types.ModuleType and vars(module) is value else None


def _read(module: t.Any, attribute: str) -> t.Any:
    for step in attribute.split("."):
        found = module if type(module) is dict else getattr(module, "__dict__", {})
        module = found.get(step)
    return module


def _has_no_state(value: t.Any, cls: type) -> bool:
    """Whether a value has nothing but its identity: an object of a Python class, without
    attributes, whose class has no code that makes it again."""
    if cls is object:
        return True
    if not _may_lack_state(cls):
        return False
    if _defined(cls, "__dict__") is None or object.__getattribute__(value, "__dict__"):
        return False
    return (
        all(_defined(cls, name) is object.__dict__.get(name) for name in _MADE_BY)
        and object.__getstate__(value) is None  # type: ignore[attr-defined] # no slots either
    )


def _may_lack_state(cls: type) -> bool:
    """Whether its size allows it, which a class keeps."""
    return bool(cls.__flags__ & restoring.HEAP_TYPE) and cls.__basicsize__ <= _SIZE_MAX


# ---- constants of libraries ----------------------------------------------------------------

_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)
_constants: dict[type, dict[int, str]] = {}  # by class: names in its module, by the objects' ids


def _names_in(cls: type) -> dict[int, str]:
    """The constants of a class: the objects of it in the library's module that defines it, as names
    by id. Only attributes make such an object, and it is equal to itself alone."""
    found = _constants.get(cls)
    if found is None:
        found, module = {}, cls.__module__
        if module == "__main__":
            return found  # isn't kept: the notebook may define the class anew
        space = getattr(sys.modules.get(module), "__dict__", {}) if type(module) is str else {}
        if space.get(cls.__qualname__) is cls:
            if not trial.is_own(module) and module not in _NOT and _has_attributes_alone(cls):
                found = {id(one): name for name, one in list(space.items()) if type(one) is cls}
            _constants[cls] = found
    return found


def _has_attributes_alone(cls: type) -> bool:
    if not _may_lack_state(cls):
        return False
    names = (*_MADE_BY, "__setstate__", "__new__", "__hash__", "__setattr__")
    return _defined(cls, "__dict__") is not None and all(
        _defined(cls, name) is object.__dict__.get(name) for name in names
    )


def _reduce_constant(value: t.Any, cls: type, names: dict[int, str]) -> t.Any:
    name = names.get(id(value))
    if name is None or vars(sys.modules[cls.__module__]).get(name) is not value:
        return None
    attributes = object.__getattribute__(value, "__dict__")
    if not all(map(_is_constant, attributes.values())):
        return None
    return find_constant, (cls, name, dict(attributes))


def _is_constant(value: t.Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return type(value) in _ATOMS or issubclass(type(value), _BY_NAME)


def find_constant(cls: t.Any, name: str, attributes: dict[str, t.Any]) -> t.Any:
    """The constant of this process, if it has the same contents; else a new object with them."""
    found = getattr(sys.modules.get(cls.__module__), "__dict__", {}).get(name)
    if type(found) is cls:
        if patches.equal(object.__getattribute__(found, "__dict__"), attributes):
            return found
    made = object.__new__(cls)
    object.__getattribute__(made, "__dict__").update(attributes)
    return made


def _defined(cls: type, name: str) -> t.Any:
    """What a class has under a name. `getattr` would run descriptors, which of `MagicMock` make
    something new."""
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


# Methods that define how an object is pickled, and what it is equal to.
_MADE_BY = "__reduce_ex__ __reduce__ __getstate__ __getnewargs__ __getnewargs_ex__ __eq__".split()
_LIBRARIES = ("built-in", "frozen", os.path.dirname(os.__file__), *site.getsitepackages())
_SIZE_MAX = object.__basicsize__ + 2 * struct.calcsize("P")  # with a dict and weak references


class _Sentinels:
    """Objects without a state that are attributes of modules, by their ids. A module is looked into
    once. A module of the user's own is looked into again when it was loaded anew: then it has
    another `__spec__`."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[str, str]] = {}
        self._specs: dict[str, object] = {}  # of the modules that were looked into
        self._changing: list[str] = []  # modules that may be loaded anew
        self._digest = 0  # of all modules

    def place_of(self, value: t.Any) -> tuple[str, str] | None:
        """The module and the name under which it is found there."""
        if self._known(value) is None:
            digest = _store._modules_digest()
            is_all = digest == self._digest
            for name in self._changing if is_all else list(sys.modules):
                self._meet(name, sys.modules.get(name))
            self._digest = digest
        return self._known(value)

    def _meet(self, name: str, module: t.Any) -> None:
        spec = getattr(module, "__spec__", None) if type(module) is types.ModuleType else None
        if spec is None or self._specs.get(name) is spec:
            return  # without a spec it can't be imported in another process
        if name not in self._specs and not str(getattr(spec, "origin", "")).startswith(_LIBRARIES):
            self._changing.append(name)
        self._specs[name] = spec
        self._look_into(name, module)

    def _known(self, value: t.Any) -> tuple[str, str] | None:
        place = self._places.get(id(value))
        if place is None or _read(sys.modules.get(place[0]), place[1]) is not value:
            return None
        return place

    def _look_into(self, name: str, module: types.ModuleType) -> None:
        for attribute, value in list(vars(module).items()):
            cls = type(value)
            if (cls is object or cls.__flags__ & restoring.HEAP_TYPE) and _has_no_state(value, cls):
                if self._known(value) is None:
                    self._places[id(value)] = name, attribute


_sentinels = _Sentinels()
