"""Keras 3: models, layers, optimizers, metrics, on any backend.

Keras pickles each of them as the file that `save` would write: configuration, weights, state of
the optimizer, how it was compiled. Two things are corrected:

* The file has the time at which it was written, and the addresses of some objects. So the same model
  would look changed a second later. It is carried as its parts, without the time, and with small
  numbers instead of the addresses.
* Keras looks up classes of the notebook, and what their constructors name, in `__main__`. There they
  may not be bound yet, so they are carried with the model.

The file of a model has its parts: layers, other models, the optimizer, variables. A variable, or an object
anywhere in the same value, may be such a part. Then it is carried as its place in the model: the path on
which Keras finds it when it saves. So `layer is model.layers[0]` stays true. When the first such object is
met, the whole value is searched for models, since a part may come before its model.

A part may belong to several models, none of which is in another. Then it is carried with the first of them.
In the configuration of another one that is functional or sequential, a stand-in takes the part's place (a
layer, an input, a whole model). When it is read, it returns the part of the first model. The part is called
once more then, and has more nodes than in the file. So the numbers by which nodes refer to each other are
moved. Models that are neither functional nor sequential get parts of their own, as from their files.

State that the file doesn't keep isn't carried. If a variable refers to a metric or loss of a model, it comes
back as an object of its own.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import types
import typing as t
import zipfile

import keras
from keras.src.saving import saving_lib
from keras.src.saving.keras_saveable import KerasSaveable

from holdfast.carry import context
from holdfast.codecs import Codec, register

_CONFIGURATION = "config.json"
_METADATA = "metadata.json"  # the file's own: when it was written, and by what version
_STAND_IN = "holdfast>"
_DATE = (1980, 1, 1, 0, 0, 0)  # a zip file's earliest


def _make_saved(make, parts, classes, needed, names, shared):
    if shared:
        classes = {**classes, **{_STAND_IN + str(i): _Found(one) for i, one in enumerate(shared)}}
        parts = [
            (name, _move_nodes(data, shared) if name == _CONFIGURATION else data)
            for name, data in parts
        ]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name, _DATE), data)
    file.seek(0)
    with _at_hand(needed), keras.saving.custom_object_scope(classes):
        made = make(file)
    for path, name in names:
        part = _find_part(made, path)
        if part.name != name:
            part.name = name
    return made


class _Found:
    """The class of a stand-in. It returns a part that is there already."""

    def __init__(self, part):
        self._part = part

    def from_config(self, configuration):
        return self._part


def _move_nodes(configuration, shared):
    """Move the numbers of a shared part's nodes by as many nodes as the part has already."""
    found = json.loads(configuration)
    counts = {_STAND_IN + str(i): len(one._inbound_nodes) for i, one in enumerate(shared)}
    _move_in(found["config"], counts)
    return json.dumps(found).encode()


def _move_in(model, counts):
    steps, made = {}, {}
    for layer in model.get("layers", ()):
        if "layers" in layer["config"]:
            _move_in(layer["config"], counts)
        name, nodes = layer["registered_name"], layer.get("inbound_nodes")
        if nodes and name in counts:
            steps[layer["name"]], made[name] = counts[name], len(nodes)
    for layer in model.get("layers", ()) if steps else ():
        _move_histories(layer.get("inbound_nodes"), steps)
    for place in ("input_layers", "output_layers"):
        _move_places(model.get(place), steps)
    for name, more in made.items():
        counts[name] += more


def _move_histories(value, steps):
    if isinstance(value, list):
        for item in value:
            _move_histories(item, steps)
    elif isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        _move_places(value["config"]["keras_history"], steps)
    elif isinstance(value, dict):
        _move_histories(list(value.values()), steps)


def _move_places(value, steps):
    """Places are lists of a layer's name, the number of a node, and that of a tensor."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list) and value and isinstance(value[0], str):
        value[1] += steps.get(value[0], 0)
    elif isinstance(value, list):
        for item in value:
            _move_places(item, steps)


@contextlib.contextmanager
def _at_hand(needed):
    """Bind the objects that the notebook's classes name for a moment, if they aren't bound yet."""
    namespace = context.current_namespace()
    missing = {} if namespace is None else {k: v for k, v in needed.items() if k not in namespace}
    if missing:
        namespace.update(missing)
    try:
        yield
    finally:
        for name in missing:
            namespace.pop(name, None)


def _find_part(owner, path):
    for step in path:
        if isinstance(step, str):
            owner = getattr(owner, step)
        else:
            owner = list(owner.values() if isinstance(owner, dict) else owner)[step]
    return owner


def _find_variable(owner, position):
    return owner.variables[position]


# ---- what is part of what -------------------------------------------------------------------

_PARTS = keras.layers.Layer, keras.optimizers.Optimizer
_ENDS = KerasSaveable, keras.Variable
_NEEDED = types.ModuleType, type, types.FunctionType, bool, int, float, str
_Path = tuple[t.Union[str, int], ...]


def _children(value):
    """The objects that a pickle of this one may hold, without the globals of functions."""
    if isinstance(value, types.FunctionType):
        return [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
    if isinstance(value, (type, types.ModuleType, *_ENDS)):
        return []
    return gc.get_referents(value)


def _saveables_in(root: object) -> list[t.Any]:
    """The models, layers and the like in a value, but not their parts."""
    found, seen, work = [], set(), [root]
    while work:
        value = work.pop()
        if id(value) in seen or not gc.is_tracked(value):
            continue
        seen.add(id(value))
        if isinstance(value, KerasSaveable):
            found.append(value)
        work += reversed(_children(value))
    return found


def _walk(value: t.Any, path: _Path, seen: set[int]) -> t.Iterator[tuple[_Path, t.Any]]:
    """A saveable (or a container of some) and all parts that Keras saves with it, each with its
    path."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, KerasSaveable):
        yield path, value
        children = saving_lib._walk_saveable(value)
    else:
        children = enumerate(value.values() if isinstance(value, dict) else value)
    for step, child in children:
        if isinstance(child, (KerasSaveable, list, dict, tuple)):
            yield from _walk(child, (*path, step), seen)


def _names_of(value):
    """The names of a model's layers. Names that a constructor makes are counted in each process,
    and may differ there."""
    walk = _walk(value, (), set())
    return [(path, part.name) for path, part in walk if isinstance(part, keras.layers.Layer)]


class _Index:
    """Of one value: which objects are parts of which, and the paths to them."""

    def __init__(self, root: object) -> None:
        self._places: dict[int, tuple[t.Any, _Path]] = {}
        self._variables: dict[int, tuple[t.Any, int]] = {}
        walks = [(owner, list(_walk(owner, (), set()))) for owner in _saveables_in(root)]
        inside = {id(part) for _, walk in walks for path, part in walk if path}
        for owner, walk in walks:
            if id(owner) in inside:
                continue
            for path, part in walk:
                if isinstance(part, _PARTS):
                    if path:
                        self._places.setdefault(id(part), (owner, path))
                    for position, variable in enumerate(part.variables):
                        self._variables.setdefault(id(variable), (part, position))

    def place_of(self, part: object) -> tuple[t.Any, _Path] | None:
        return self._places.get(id(part))

    def place_of_variable(self, variable: object) -> tuple[t.Any, int] | None:
        return self._variables.get(id(variable))


def _index_of(pickler):
    index = pickler.notes.get(_Index)
    if index is None:
        index = pickler.notes[_Index] = _Index(pickler.root)
    return index


# ---- taking apart ---------------------------------------------------------------------------


def _notebook_classes(value):
    layers = value._flatten_layers() if hasattr(value, "_flatten_layers") else (value,)
    found = {type(value), *(type(layer) for layer in layers)}
    own = [cls for cls in found if cls.__module__ == "__main__"]
    names = {cls.__name__: cls for cls in own}
    return names | {keras.saving.get_registered_name(cls): cls for cls in own}


def _codes_of(value):
    """The code of a class or function of the notebook that may run while a model is made."""
    functions = [value]
    if isinstance(value, type):
        functions = [getattr(one, "__func__", one) for one in vars(value).values()]
    work = [one.__code__ for one in functions if isinstance(one, types.FunctionType)]
    for code in work:
        work += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return work


def _needed_by(classes):
    """The objects that the notebook's classes name: modules, classes, functions and plain
    values."""
    namespace, needed, work = context.current_namespace() or {}, {}, list(classes)
    while work:
        for name in {name for code in _codes_of(work.pop()) for name in code.co_names}:
            value = namespace.get(name)
            if name in needed or not isinstance(value, _NEEDED):
                continue
            needed[name] = value
            if getattr(value, "__module__", "") == "__main__":
                work.append(value)
    return dict(sorted(needed.items()))


def _number_shared(part: t.Any, numbers: dict[int, int]) -> None:
    """Put 0, 1, ... in place of the addresses of shared objects, in the configuration itself."""
    if isinstance(part, dict):
        address = part.pop("shared_object_id", None)
        # Policies are values. What is read back has its own.
        if address is not None and part.get("class_name") != "DTypePolicy":
            part["shared_object_id"] = numbers.setdefault(address, len(numbers))
    for item in part.values() if isinstance(part, dict) else part:
        if isinstance(item, (dict, list)):
            _number_shared(item, numbers)


class _StandIns:
    """Puts stand-ins into the configuration of a model for parts that are carried with another
    model. `parts` has these parts."""

    def __init__(self, owner: t.Any, index: _Index) -> None:
        self.parts: list[t.Any] = []
        self._owner, self._index = owner, index

    def put(self, configuration: dict[str, t.Any], model: t.Any) -> None:
        is_sequential = isinstance(model, keras.Sequential)
        parts = model._layers if is_sequential else getattr(model, "operations", ())
        layers = configuration.get("layers", ())
        for layer, part in zip(layers, parts) if len(layers) == len(parts) else ():
            place = self._index.place_of(part)
            if place is not None and place[0] is not self._owner:
                layer.pop("build_config", None)
                layer.update(class_name="Shared", module=None, config={"name": part.name})
                layer["registered_name"] = _STAND_IN + str(self._number_of(part))
            elif isinstance(part, keras.Model):
                self.put(layer["config"], part)

    def _number_of(self, part: t.Any) -> int:
        numbers = [i for i, one in enumerate(self.parts) if one is part]
        if not numbers:
            self.parts.append(part)
        return numbers[0] if numbers else len(self.parts) - 1


def _parts_of(file, value, stand_ins):
    """The files in a saved model, by name. They are the same if the model is."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in sorted(archive.namelist())}
    configuration = json.loads(parts[_CONFIGURATION])
    stand_ins.put(configuration["config"], value)
    _number_shared(configuration, {})
    parts[_CONFIGURATION] = json.dumps(configuration).encode()
    parts[_METADATA] = json.dumps({"keras_version": keras.__version__}).encode()
    return list(parts.items())


class _Saved(Codec):
    types = ("keras.src.saving.keras_saveable.KerasSaveable",)

    def reduce(self, value, pickler):
        place = _index_of(pickler).place_of(value)
        if place is not None:
            return _find_part, place
        reduced = value.__reduce__()
        make, arguments = reduced[:2]
        if len(arguments) != 1 or not isinstance(arguments[0], io.BytesIO):
            return reduced  # its class says how it is pickled
        classes = dict(sorted(_notebook_classes(value).items()))
        needed = _needed_by(classes.values())
        names = _names_of(value) if classes else []
        stand_ins = _StandIns(value, _index_of(pickler))
        parts = _parts_of(arguments[0], value, stand_ins)
        return _make_saved, (make, parts, classes, needed, names, stand_ins.parts)


class _Variables(Codec):
    types = ("keras.src.backend.common.variables.Variable",)

    def reduce(self, value, pickler):
        place = _index_of(pickler).place_of_variable(value)
        return NotImplemented if place is None else (_find_variable, place)


register(_Saved())
register(_Variables())
