"""Keras 3: models, layers, optimizers, metrics, on any backend.

Keras pickles each of them as the file that `save` would write: configuration, weights, state of
the optimizer, how it was compiled. Two things are put right. The file says when it was
written and where in memory some objects were, so the same model would look changed a second
later: it travels as its parts, without the one and with small numbers for the other. And classes of the notebook are looked up by name in `__main__`, where they may
not be bound yet: they travel along.

What the file doesn't keep isn't carried: a layer or an optimizer that has a name beside its
model's comes back as an object of its own.
"""

from __future__ import annotations

import io
import json
import typing as t
import zipfile

import keras

from . import Codec, register

_CONFIGURATION = "config.json"
_METADATA = "metadata.json"  # the file's own: when it was written, and by what version
_DATE = (1980, 1, 1, 0, 0, 0)  # a zip file's earliest


def _make_saved(make, parts, classes):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name, _DATE), data)
    file.seek(0)
    with keras.saving.custom_object_scope(classes):
        return make(file)


def _notebook_classes(value):
    layers = value._flatten_layers() if hasattr(value, "_flatten_layers") else (value,)
    found = {type(value), *(type(layer) for layer in layers)}
    return {cls.__name__: cls for cls in found if cls.__module__ == "__main__"}


def _number_shared(part: t.Any, numbers: dict[int, int]) -> None:
    """In a configuration, in place: 0, 1, ... where it has the addresses of shared objects."""
    if isinstance(part, dict):
        address = part.pop("shared_object_id", None)
        # Policies are values; what is read back doesn't share them.
        if address is not None and part.get("class_name") != "DTypePolicy":
            part["shared_object_id"] = numbers.setdefault(address, len(numbers))
    for item in part.values() if isinstance(part, dict) else part:
        if isinstance(item, (dict, list)):
            _number_shared(item, numbers)


def _parts_of(file):
    """The files in a saved model, by name; the same for the same model."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in sorted(archive.namelist())}
    configuration = json.loads(parts[_CONFIGURATION])
    _number_shared(configuration, {})
    parts[_CONFIGURATION] = json.dumps(configuration).encode()
    parts[_METADATA] = json.dumps({"keras_version": keras.__version__}).encode()
    return list(parts.items())


class _Saved(Codec):
    types = ("keras.src.saving.keras_saveable.KerasSaveable",)

    def reduce(self, value, pickler):
        reduced = value.__reduce__()
        make, arguments = reduced[:2]
        if len(arguments) != 1 or not isinstance(arguments[0], io.BytesIO):
            return reduced  # its own way
        classes = sorted(_notebook_classes(value).items())
        return _make_saved, (make, _parts_of(arguments[0]), dict(classes))


register(_Saved())
