"""What Holdfast knows of other libraries: a file or a folder for each, named like the package.

A cell in a clean process finds the notebook's variables, and has to find the libraries as the notebook has
set them: `np.seterr(all="raise")`, a theme, a function that was registered. Each file, and the `__init__.py` of each
folder, has a tuple `DECLARATIONS` of such state, of four kinds:

`Setting`
    a value that one function reads and another one sets;
`Registry`
    an object of the library, or a dict, list or set, in which it keeps what the notebook has set or added;
`Replay`
    calls whose effects can't be read. They are made again in the other process;
`Counter`
    a number that goes on where it was.

The other files of a folder have codecs: how values of the library's types are encoded. `holdfast/codecs.py` says which
file knows which types. `worker/settings/library_state.py` carries the state, and knows no library. For a new library
copy seaborn.py, which is short. Then run docs/reference.py, which puts it into the table of docs/carried.md.

Other packages add theirs by an entry point of the group ``holdfast.libraries``. Its name is the package, and
its object what `DECLARATIONS` is here.

Calls of a library's that we make ourselves, to save and to set values, may be seen by what the notebook has set there. A file
says in `ASIDE` how that is put aside meanwhile.

A folder without an `__init__.py` has codecs alone.

A file with declarations is loaded when its package is looked for, and never imports it; one with codecs is loaded when
a value of its types is met. An `Imported` stands for a module of the
library: nothing is asked of it before the module is there. Where a version of the library lacks what a declaration
names, that declaration alone is left out; `unusable` has the reason.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
import typing as t

from holdfast.carry.patches import MISSING

from .. import codecs

__all__ = [
    "MISSING",
    "Counter",
    "Declaration",
    "Imported",
    "Registry",
    "Replay",
    "Setting",
    "aside",
    "functions",
    "has",
    "load",
    "set_each",
    "unusable",
]

FILES = frozenset(
    found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")
)
unusable: dict[str, str] = {}  # reasons, by the names of declarations
_asides: list[t.Callable[[], t.ContextManager[object]]] = []  # of the files that are loaded
_open: contextlib.ExitStack | None = None  # while we work


class Imported:
    """Stands for a module that may not be imported yet; attributes are looked up when they are used.

    Parameters
    ----------
    name : str
        Its full name.
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> t.Any:
        return getattr(sys.modules[self._name], attribute)

    def __bool__(self) -> bool:
        return self._name in sys.modules


class Setting(t.NamedTuple):
    """A value of the library: how it is read and set.

    Attributes
    ----------
    name : str
        What it is, as a message names it after the package: "options", "error handling".
    get : callable
        Returns a plain value. With `has_values` the value may refer to the notebook's own objects; then a list or dict
        must be a new one each time, and `MISSING` means that the notebook has set nothing. It must import nothing.
    set : callable, optional
        Sets another process's value. With `has_values` it also gets `MISSING`, to set the value back. Without `set` a
        change is only reported.
    after : str, optional
        The module whose import has to end before `get` is called; the package if it isn't given.
    fresh : object, optional
        What `get` returns before the import; None: unknown.
    is_drawn : bool, optional
        Whether processes begin with different values, random ones for example: then it is always carried.
    late : callable, optional
        For a setting that can't be set at the end of an import: there it waits for the next cell. Gets that cell's code.
        Returns whether the cell needs it also if nothing has imported `after` by then; `set` imports it.
    has_values : bool, optional
        Whether the notebook's own objects may be in it: then it is saved as variables are.
    held : callable, optional
        Gives the dict or list that `get` reads from, with those in it, and from nothing else: while they hold the same
        objects `get` isn't called. For one that takes more than some microseconds.
    parts : callable, optional
        Gives all objects that `get` reads from, if these aren't those in what `held` gives.
    begin : callable, optional
        Called before the notebook's code runs, or at the end of the import. What it returns is the first argument of `get`
        and `set`. Only with `has_values`.
    """

    name: str
    get: t.Callable[..., t.Any]
    set: t.Callable[..., object] | None = None
    after: str = ""
    fresh: t.Any = None
    is_drawn: bool = False
    late: t.Callable[[str], bool] | None = None
    has_values: bool = False
    held: t.Callable[[], t.Any] | None = None
    parts: t.Callable[[], list[t.Any] | None] | None = None
    begin: t.Callable[[], t.Any] | None = None


class Registry(t.NamedTuple):
    """An object in which the library keeps what the notebook has set.

    What differs from how the library was imported is carried: attributes, and entries of its dicts and sets. They are
    set in the object that the other process has, since the library may have that by several names.

    Use `holders` if libraries add entries, too, while the notebook runs. Then only entries are carried that the
    notebook's code has made, or that are built in (`len`).

    Attributes
    ----------
    name : str
        What it is, as a message names it after the package.
    module : str
        Where it is.
    path : str, optional
        Its name there; without one it is the module.
    attributes : tuple of str, optional
        The attributes that are looked at, which may be properties. All of them if it is empty.
    is_lazy : callable, optional
        Gets an entry as it was at the import. Returns whether the library itself replaces that at its first use.
    fixed : bool, optional
        Whether entries are replaced and never changed: then the same object is the same value.
    then : callable, optional
        Called when something of the notebook's was set or taken back, for a library that computes more from it.
    after : str, optional
        The module whose import adds entries, and has to end before; `module` if it isn't given.
    holders : callable, optional
        Gives the lists and dicts, by names. It gets the names that another process has. If the module has an object of
        such a name, a variable that is this object is that of the other process there.
    made_by : str, optional
        What code of the notebook has to have added: all of it ("notebook"), its cells, or its "own modules".
    counts : callable, optional
        Gets a value that was added. Returns whether it counts although a library's code has made it.
    has_removals : bool, optional
        Whether it is also carried which items are gone from dicts.
    """

    name: str
    module: str
    path: str = ""
    attributes: tuple[str, ...] = ()
    is_lazy: t.Callable[[t.Any], bool] = lambda begun: False
    fixed: bool = False
    then: t.Callable[[], object] | None = None
    after: str = ""
    holders: t.Callable[[t.Iterable[t.Any]], dict[t.Any, t.Any]] | None = None
    made_by: str = "notebook"
    counts: t.Callable[[object], bool] = lambda value: False
    has_removals: bool = False


class Replay(t.NamedTuple):
    """Calls of the notebook's code that are made again in another process, in their order, without output.

    Attributes
    ----------
    name : str
        What they do, as a message names it after the package.
    functions : tuple of (str, str)
        Modules, and names of functions or methods there. For a class that is called like a function: `__call__`.
    back : str, optional
        The function of the same module that takes a call back. Without one a later call must override earlier ones.
    key : callable, optional
        Computes the argument of `back` from the call's first argument.
    through : bool, optional
        Whether a call also counts if a library makes it on behalf of the notebook's code.
    counts : callable, optional
        Gets the name of the function and the arguments of a call. Returns whether the call is made again.
    is_repeated : bool, optional
        Whether calls are made again. If not, a message says that there was one.
    after : str, optional
        The module whose import has to end before calls are made. If it isn't given: the package if libraries may call,
        else the module of the first function.
    """

    name: str
    functions: tuple[tuple[str, str], ...]
    back: str = ""
    key: t.Callable[[t.Any], t.Any] = lambda argument: argument
    through: bool = False
    counts: t.Callable[[str, tuple[t.Any, ...]], bool] = lambda name, arguments: True
    is_repeated: bool = True
    after: str = ""


class Counter(t.NamedTuple):
    """A number that the library gives to its objects. Most are found without a declaration (counters.py).

    Attributes
    ----------
    module : str
        Where it is.
    path : str
        Its name there.
    is_drawn : bool, optional
        Whether each process begins at random.
    """

    module: str
    path: str
    is_drawn: bool = False


Declaration = Setting | Registry | Replay | Counter


def has(package: str) -> bool:
    """Say whether something is declared of a package.

    Parameters
    ----------
    package : str
        The name that is imported.

    Returns
    -------
    bool
        Whether there is a file here or an entry point.
    """
    return package in FILES or package in codecs.entry_points(codecs.OF_LIBRARIES)


def load(package: str) -> tuple[Declaration, ...]:
    """Give what is declared of a package.

    Parameters
    ----------
    package : str
        The name that is imported.

    Returns
    -------
    tuple of Declaration
        Nothing if nothing is declared, or if an entry point can't be loaded: `unusable` has the reason.
    """
    found: tuple[Declaration, ...] = ()
    if package in FILES:
        module = importlib.import_module(f"{__name__}.{package}")
        found = module.DECLARATIONS
        if hasattr(module, "ASIDE"):
            _asides.append(module.ASIDE)
            if _open is not None:
                _open.enter_context(module.ASIDE())
    point = codecs.entry_points(codecs.OF_LIBRARIES).get(package)
    if point is not None:
        try:
            added = tuple(point.load())
            if not all(isinstance(one, Declaration) for one in added):
                raise TypeError("it isn't a sequence of declarations")
        except Exception as error:  # another's must not cost the notebook its own
            unusable[f"{package}: {point.value}"] = f"{type(error).__name__}: {error}"
        else:
            found += added
    return found


@contextlib.contextmanager
def aside() -> t.Iterator[None]:
    """Do our own work with libraries, unseen by what the notebook has set there.

    Yields
    ------
    None
        Inside of another such context nothing is done.
    """
    global _open
    if _open is not None:
        yield
        return
    with contextlib.ExitStack() as stack:
        _open = stack
        try:
            for one in _asides:
                stack.enter_context(one())
            yield
        finally:
            _open = None


def functions(name: str, module: str, getter: str, setter: str, after: str = "") -> Setting:
    """Declare a setting that two functions of a module get and set.

    Parameters
    ----------
    name : str
        What it is.
    module : str
        Where the functions are.
    getter, setter : str
        Their names.
    after : str, optional
        As that of `Setting`.

    Returns
    -------
    Setting
        It calls them by their names.
    """
    place = Imported(module)
    return Setting(
        name,
        lambda: getattr(place, getter)(),
        lambda new: getattr(place, setter)(new),
        after or module,
    )


def set_each(
    new: t.Mapping[str, t.Any],
    now: t.Mapping[str, t.Any],
    set_one: t.Callable[[str, t.Any], object],
) -> None:
    """Set those options that differ. If one can't be set, the others are.

    Parameters
    ----------
    new, now : mapping
        Values by name, as they are to be and as they are.
    set_one : callable
        Gets a name and a value.

    Raises
    ------
    ValueError
        Some couldn't be set: it has their names and the reasons.
    """
    failed = []
    for name, value in new.items():
        if name not in now or now[name] != value:
            try:
                set_one(name, value)
            except Exception as error:
                failed.append(f"{name}: {error}")
    if failed:
        raise ValueError("; ".join(failed))
