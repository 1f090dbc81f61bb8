"""TensorFlow: eager tensors, variables, and what is made of them.

An eager tensor never changes. So its memory is carried as it is, and the tensor is made again around the
mapped bytes, through DLPack, without a copy. A variable is a buffer to which code assigns. It is carried as
its content, and made again around that. TensorFlow counts what refers to a buffer, so it copies this one when
the variable is first changed in place.

TensorFlow's kernels need aligned memory. Small tensors are a part of the pickle, where they aren't aligned, so
they are copied. Texts are copied, too: they aren't plain memory. The own pickling of ragged and sparse tensors
and of slices is kept; it comes down to dense tensors. A tf.function that was called holds graphs, which belong
to the process. It is carried as it was before its first call. Datasets, iterators and tensor arrays live
inside of TensorFlow and are unserializable.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from holdfast.codecs import Codec, register

_ALIGNMENT = 64
_SAME_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Types that live inside of TensorFlow, by the names of their classes: what to do instead.
_DECLINED = {
    "tensorflow.python.data.ops.dataset_ops.DatasetV2": (
        "a dataset is a graph inside of TensorFlow: make it in the cell that uses it"
    ),
    "tensorflow.python.data.ops.iterator_ops.OwnedIterator": (
        "an iterator is a place inside of TensorFlow: make it in the cell that uses it"
    ),
    "tensorflow.python.ops.tensor_array_ops.TensorArray": (
        "a tensor array lives inside of TensorFlow: carry its stack() instead"
    ),
}


# ---- what a pickle calls when it is read ----------------------------------------------------


def _make_tensor(memory, dtype, shape):
    array = np.frombuffer(memory, np.uint8)
    is_native = np.dtype(dtype.as_numpy_dtype).kind in "biufc"
    if array.__array_interface__["data"][0] % _ALIGNMENT:
        return tf.constant(array.view(dtype.as_numpy_dtype).reshape(shape), dtype)
    kind = dtype.as_numpy_dtype if is_native else _SAME_SIZE[dtype.size]
    tensor = tf.experimental.dlpack.from_dlpack(array.view(kind).reshape(shape).__dlpack__())
    return tensor if is_native else tf.bitcast(tensor, dtype)


def _make_small(array, dtype):
    return tf.constant(array, dtype)


def _make_variable(value, options):
    return tf.Variable(value, **options)


# ---- taking apart ---------------------------------------------------------------------------


class _Tensors(Codec):
    types = ("tensorflow.python.framework.ops.EagerTensor",)

    def reduce(self, value, pickler):
        if value.dtype in (tf.variant, tf.resource):
            raise TypeError(f"a tensor of type {value.dtype.name} lives inside of TensorFlow")
        array = value._numpy()
        if value.dtype == tf.string or np.ndim(array) == 0 or array.size == 0:
            return _make_small, (array, value.dtype)
        address = array.__array_interface__["data"][0]
        memory = pickler.memory(address, array.nbytes, array)  # a copy, if it is on a GPU
        return _make_tensor, (memory, value.dtype, array.shape)

    def array(self, value):
        return None if value.dtype == tf.string else np.asarray(value._numpy())


class _Variables(Codec):
    types = ("tensorflow.python.ops.resource_variable_ops.ResourceVariable",)

    def reduce(self, value, pickler):
        if value._distribute_strategy is not None:
            raise TypeError("a variable of a distribution strategy is bound to its devices")
        options = {
            "trainable": value.trainable,
            "name": value._shared_name,
            "dtype": value.dtype,
            "shape": value.shape,
            "constraint": value.constraint,
            "synchronization": value.synchronization,
            "aggregation": value.aggregation,
        }
        return _make_variable, (value.value(), options)

    def array(self, value):
        return _tensors.array(value.value())


class _Functions(Codec):
    types = ("tensorflow.python.eager.polymorphic_function.polymorphic_function.Function",)

    def reduce(self, value, pickler):
        state = {**value.__getstate__(), **value._clone(None).__getstate__()}
        state.pop("_concrete_variable_creation_fn", None)  # the first graph that it traced
        return object.__new__, (type(value),), state


class _Declined(Codec):
    types = tuple(_DECLINED)

    def reduce(self, value, pickler):
        for base in type(value).__mro__:
            reason = _DECLINED.get(f"{base.__module__}.{base.__qualname__}")
            if reason:
                raise TypeError(reason)
        return NotImplemented


_tensors = _Tensors()
for _codec in (_tensors, _Variables(), _Functions(), _Declined()):
    register(_codec)
