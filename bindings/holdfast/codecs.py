"""Codecs for types of other libraries, and the registry to which other packages add theirs.

A codec of this kind is a rule of the pickler (`carry/pickling.py`): it says how a value of some
types is taken apart, as a variable or deep inside of one. Memory that it
hands over by `pickler.memory` is put into the arena, and mapped by the other process without a copy.

    from holdfast.codecs import Codec, register

    class Grid(Codec):
        types = ("grids.Grid",)

        def reduce(self, value, pickler):
            owner = value.storage
            memory = pickler.memory(owner.address, owner.size, owner)
            return grids.Grid.from_buffer, (memory, value.shape)

        def shares(self, value):
            return (value.storage.address,)

    register(Grid())

A package registers by an entry point of the group ``holdfast.codecs``. Its name is the
top-level module of the types, and its object is a codec or a list of codecs:

    [project.entry-points."holdfast.codecs"]
    grids = "grids_holdfast:codecs"

The object may also be a codec in C, in a capsule (holdfast/codec.h). It is loaded when a value of a
type from that module is first met, so a library that the notebook doesn't use costs nothing.
The built-in ones stand in holdfast/libraries.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
import sys
import types
import typing as t

from holdfast import _store

# In a pickler's notes: some memory is lent (device_lease.py). Decoding copies it, however small the pickle is.
LENT = "some memory is lent, and not in the encoding"

# Top-level module of the types -> the module below holdfast that knows them.
_BUILT_IN: dict[str, str] = {
    "IPython": "libraries.IPython.shells",
    "PIL": "libraries.PIL.images",
    "_io": "libraries.standard.text_files",
    "_weakrefset": "libraries.standard.weak_references",
    "_asyncio": "carry.refused",
    "argparse": "carry.refused",
    "asyncio": "carry.refused",
    "bz2": "carry.refused",
    "bokeh": "libraries.bokeh.models",
    "bs4": "libraries.bs4.trees",
    "builtins": "libraries.standard.wrapped_objects",
    "concurrent": "carry.refused",
    "comm": "libraries.comm.comms",
    "cupy": "carry.refused",
    "dateutil": "libraries.dateutil.zones",
    "functools": "carry.cached_functions",
    "gzip": "carry.refused",
    "holoviews": "libraries.holoviews.objects",
    "ipykernel": "libraries.IPython.shells",
    "ipywidgets": "libraries.ipywidgets.widgets",
    "itertools": "carry.refused",
    "jinja2": "libraries.bokeh.models",
    "joblib": "libraries.joblib.backends",
    "logging": "libraries.standard.small_types",
    "lzma": "carry.refused",
    "matplotlib": "libraries.matplotlib.figures",
    "multiprocessing": "libraries.standard.connections",
    "numpy": "libraries.numpy.arrays",
    "pandas": "libraries.pandas.blocks",
    "param": "libraries.param.objects",
    "plotly": "libraries.plotly.figures",
    "polars": "libraries.polars.columns",
    "pyarrow": "libraries.pyarrow.buffers",
    "socket": "libraries.standard.connections",
    "subprocess": "carry.refused",
    "tempfile": "carry.refused",
    "threading": "carry.refused",
    "traitlets": "libraries.traitlets.objects",
    "jax": "libraries.jax.arrays",
    "jaxlib": "libraries.jax.arrays",
    "keras": "libraries.keras.models",
    "tensorflow": "libraries.tensorflow.tensors",
    "torch": "libraries.torch.tensors",
    "unittest": "carry.refused",
    "weakref": "libraries.standard.weak_references",
    "zipfile": "libraries.standard.archives",
}
_IMPORTING = frozenset(("libraries.standard.archives", "libraries.standard.connections"))
GROUP = "holdfast.codecs"
OF_LIBRARIES = "holdfast.libraries"  # the group of what holdfast/libraries declares
_REHEARSALS = 10  # Python 3.11 makes code that has run eight times faster, in its own memory


class Codec:
    """A codec for the values of some types: the base class of codecs in Python.

    Attributes
    ----------
    types : tuple of str
        The types as ``module.Qualname``, as their ``__module__`` and ``__qualname__`` say.
        Subclasses are included, those of the notebook too, unless a nearer base has a codec.
    """

    types: tuple[str, ...] = ()

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        """Say how a value is made again, as `object.__reduce_ex__` does.

        The function that makes it must be importable in the other process. The result of
        ``pickler.memory(address, size, owner)`` may be anywhere in the arguments and the state: the
        other process gets an object that exports that memory, writable, for as long as the object
        lives.

        Parameters
        ----------
        value : object
            A value of one of the types.
        pickler : object
            ``pickler.root`` is the whole value that is being pickled, and the dict ``pickler.notes``
            keeps what a codec learns about it.

        Returns
        -------
        tuple or NotImplemented
            A tuple as `object.__reduce_ex__` returns it; NotImplemented leaves the value to pickle.

        Raises
        ------
        Exception
            The value can't be encoded, and stays in the main worker. The user reads the text as the reason.
        """
        return NotImplemented

    def shares(self, value: t.Any) -> t.Iterable[object]:
        """Name what the value shares with others and the garbage collector doesn't see.

        Parameters
        ----------
        value : object
            A value of one of the types.

        Returns
        -------
        iterable of object
            Objects, which are followed, and addresses of memory, as int. Values that return the same
            address are stored together.
        """
        return ()

    def memory(self, value: t.Any) -> tuple[int, int] | None:
        """Return the memory behind a value, for arrays that look into it.

        Parameters
        ----------
        value : object
            A value of one of the types.

        Returns
        -------
        tuple of int or None
            The address and the size in bytes of all the memory, or None if there is none.
        """
        return None

    def array(self, value: t.Any) -> t.Any:
        """Give the memory of a tensor as an array, for programs in other languages.

        Parameters
        ----------
        value : object
            A value of one of the types.

        Returns
        -------
        numpy.ndarray or None
            An array that looks into the memory that `reduce` hands over; None if there is none.
        """
        return None

    def table(self, value: t.Any) -> tuple[t.Any, ...] | None:
        """Say what the columns of a table are, for programs in other languages.

        Parameters
        ----------
        value : object
            A value of one of the types.

        Returns
        -------
        tuple or None
            The number of rows, the names of the columns, and parts. Each column is in one part, or
            in the list behind them, or in both. A part is a tuple of the places of its columns; an
            array whose last axis are the rows, of one column or with one axis more for several, or
            None if there is none; None, or an array of bytes whose bits, the lowest first, say
            which rows have a value; and the columns' type, whose text people read. Behind the parts
            may be a list of columns in Arrow's form: the column's place, what it is, and its name,
            or None for that of the table. It is an object that exports an Arrow stream, whose
            arrays are the column's chunks; a description, ``(format, flags, missing, arrays,
            dictionary)``, as `shm_store/arrays/table_node.h` has it; or a text that says why it has
            no such form. With a list of places it is a table of those. The place behind the last
            column is the index. None if it is no table, or one whose columns can't be named.
        """
        return None


_by_name: dict[str, Codec] = {}
_by_type: dict[type, Codec | None] = {}
_loaded: set[str] = set()
_rehearsed: set[str] = set()
_entry_points: dict[str, dict[str, t.Any]] | None = None  # by group and name


def register(codec: Codec) -> None:
    """Add a codec. It replaces those that its types had before.

    Parameters
    ----------
    codec : Codec
        An instance, with `types`.

    Raises
    ------
    TypeError
        It isn't an instance of `Codec`, or has no types.
    """
    if not isinstance(codec, Codec) or not codec.types:
        raise TypeError("a codec is an instance of holdfast.codecs.Codec with `types`")
    for name in codec.types:
        _by_name[name] = codec
    _by_type.clear()


def find(cls: type) -> Codec | None:
    """Find the codec for the values of a type.

    Parameters
    ----------
    cls : type
        The type.

    Returns
    -------
    Codec or None
        That of its nearest base that has one. The package that knows the type is loaded if needed.
    """
    try:
        return _by_type[cls]
    except KeyError:
        pass
    found = None
    for base in cls.__mro__:
        module = getattr(base, "__module__", None)
        if not isinstance(module, str):
            continue
        root = module.partition(".")[0]
        if root not in _loaded:
            _load(root)
        found = _by_name.get(f"{module}.{base.__qualname__}")
        if found is not None:
            break
    # A class of the notebook would be kept alive here, after it was defined anew.
    if cls.__module__ != "__main__":
        _by_type[cls] = found
    return found


def finder_of_shares(cls: type) -> t.Callable[[t.Any], t.Iterable[object]] | None:
    """Find the method `shares` for a type, for the walk over the variables.

    Parameters
    ----------
    cls : type
        The type.

    Returns
    -------
    callable or None
        None if the type has no codec, or its codec has no `shares` of its own.
    """
    codec = find(cls)
    if codec is None or type(codec).shares is Codec.shares:
        return None
    return codec.shares


def array_of(value: t.Any) -> t.Any:
    """Give a value's memory as an array, as `Codec.array` does.

    Parameters
    ----------
    value : object
        Any value.

    Returns
    -------
    numpy.ndarray or None
        None if it is no tensor, or one whose memory or type no array has.
    """
    codec = find(type(value))
    try:
        return None if codec is None else codec.array(value)
    except Exception:  # the library has no such array: the tensor is carried all the same
        return None


def table_of(value: t.Any) -> tuple[t.Any, ...] | None:
    """Describe a value if it is a table, as `Codec.table` does.

    Parameters
    ----------
    value : object
        Any value.

    Returns
    -------
    tuple or None
        None if it is no table, or one that can't be described.
    """
    codec = find(type(value))
    try:
        table = None if codec is None else codec.table(value)
        return None if table is None else (*table[:2], _merged(table[2]), *table[3:])
    except Exception:  # a library's inner parts changed: the table is carried all the same
        return None


def _merged(parts: t.Iterable[tuple[t.Any, ...]]) -> list[tuple[t.Any, ...]]:
    """The parts of a table, with one for all columns of a type that have no array."""
    arrays: list[tuple[t.Any, ...]] = []
    others: dict[t.Any, list[int]] = {}
    for part in parts:
        if part[1] is None:
            others.setdefault(part[3], []).extend(part[0])
        else:
            arrays.append(part)
    return arrays + [(places, None, None, kind) for kind, places in others.items()]


def names_of_columns(labels: t.Iterable[t.Any]) -> list[str] | None:
    """Name the columns of a table by their labels.

    Parameters
    ----------
    labels : iterable
        The labels: texts, and whole numbers, which are written in digits.

    Returns
    -------
    list of str or None
        None if there are other labels, texts that UTF-8 can't write, or two with one name.
    """
    names = [label if type(label) is str else str(label) for label in labels]
    if not all(type(label) in (str, int) for label in labels) or len(set(names)) < len(names):
        return None
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return None
    return names


def entry_points(group: str = GROUP) -> dict[str, t.Any]:
    """Return the entry points of one of our groups.

    They are read once, because this looks at every installed package.

    Parameters
    ----------
    group : str, optional
        `GROUP` or `OF_LIBRARIES`.

    Returns
    -------
    dict of str to importlib.metadata.EntryPoint
        By name, which is a top-level module.
    """
    global _entry_points
    if _entry_points is None:
        _entry_points = {GROUP: {}, OF_LIBRARIES: {}}
        if any(_has_some(entry) for entry in sys.path if isinstance(entry, str)):
            from importlib import metadata

            for one in _entry_points:
                points = metadata.entry_points(group=one)
                _entry_points[one] = {point.name: point for point in points}
    return _entry_points[group]


def _has_some(directory: str) -> bool:
    """Whether a package there may have an entry point of the groups.

    Most often none has. To ask `importlib.metadata`, which imports the parser of mail, took 3 MB of
    each process.
    """
    if os.path.isfile(directory):  # an archive of packages
        return True
    pattern = os.path.join(glob.escape(directory or "."), "*.*-info", "entry_points.txt")
    for path in glob.iglob(pattern):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            content = file.read()
            if GROUP.encode() in content or OF_LIBRARIES.encode() in content:
                return True
    return False


def module_of(root: str) -> types.ModuleType:
    """Find our own codecs for a library.

    Parameters
    ----------
    root : str
        The library's top-level module, of which there are codecs.

    Returns
    -------
    module
        Loaded if needed.
    """
    return importlib.import_module(f"holdfast.{_BUILT_IN[root]}")


def preload() -> None:
    """Read the entry points, and load the pickler and the codecs of what is imported by now.

    This is for a process that forks others, each of which would spend the time anew.
    """
    preload_built_in()
    for module in _IMPORTING:
        importlib.import_module(f"holdfast.{module}")
    entry_points()


def preload_built_in() -> None:
    """Load the pickler and our own codecs of what is imported by now.

    Unlike `preload` it leaves out the entry points, which take most of the time, and the codecs whose
    modules import what nobody has asked for.
    """
    importlib.import_module("holdfast.carry.pickling")
    for root, module in _BUILT_IN.items():
        if root in sys.modules and module not in _IMPORTING:
            with contextlib.suppress(Exception):  # reported when a value is met
                module_of(root)


def rehearse() -> None:
    """Encode and decode small values of the libraries that are imported by now.

    This is for a process that forks others: each would run the code for the first time, and what
    the library does at its first use. A module has examples (`samples`) if using its library
    starts no thread.
    """
    for module in set(_BUILT_IN.values()) - _rehearsed:
        samples = getattr(sys.modules.get(f"holdfast.{module}"), "samples", None)
        if samples is None:
            continue
        _rehearsed.add(module)
        with contextlib.suppress(Exception):  # reported when a value is met
            for value in samples() * _REHEARSALS:
                _store.groups({"value": value})
                codec, meta, payload, buffers = _store._encode(value)
                _store._decode(codec, meta, payload, [bytearray(view) for view, _ in buffers])


def load_all() -> None:
    """Load what all packages have registered, after an encoding that no codec here knows."""
    for root in entry_points():
        if root not in _loaded:
            _load(root)


def _load(root: str) -> None:
    _loaded.add(root)
    if root in _BUILT_IN:
        module_of(root)
    point = entry_points().get(root)
    if point is None:
        return
    try:
        made = point.load()
        for codec in made if isinstance(made, (list, tuple)) else [made]:
            if type(codec).__name__ == "PyCapsule":
                _store.register_codec(codec)
            else:
                register(codec)
    except Exception as error:  # another's codec must not cost the notebook its variables
        print(
            f"holdfast: the codecs of {point.value} for {root} can't be loaded: "
            f"{type(error).__name__}: {error}",
            file=sys.stderr,
        )
