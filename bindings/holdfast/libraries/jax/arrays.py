"""JAX arrays on the CPU.

An array never changes. So its memory is carried as it is, and the array is made again around the mapped
bytes. `device_put` with `may_alias` takes aligned memory without a copy, and copies other memory. Small
arrays are a part of the pickle. It is kept whether an array is committed to its device, and whether its type
is weak, since JAX compiles by these. Keys of random generators are such arrays with a type around them.

An array on several devices, or not on the CPU, is unserializable: to gather it would cost time and memory
that the user didn't ask for. So is one that was donated. Compiled functions have their own pickling, and are
compiled anew.
"""

from __future__ import annotations

import jax
import numpy as np

from holdfast.codecs import Codec, register
from holdfast.libraries.jax import functions


def _make_array(memory, dtype, shape, device, is_weak):
    """`device` is the id of the CPU to which the array is committed, else None."""
    data = np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)
    place = None if device is None else jax.devices("cpu")[device]
    array = jax.device_put(data, place, may_alias=True)
    if is_weak:  # since JAX 0.12 an array's `aval` can't be set
        aval = array.aval.update(weak_type=True)
        array = type(array)(aval, array.sharding, [array], array.committed)
    return array


def _make_key(data, name):
    return jax.random.wrap_key_data(data, impl=name)


class _Arrays(Codec):
    # The class is in another module since jaxlib 0.7.
    types = ("jaxlib._jax.ArrayImpl", "jaxlib.xla_extension.ArrayImpl")

    def reduce(self, value, pickler):
        if value.is_deleted():
            raise TypeError("an array whose memory was donated or deleted")
        devices = list(value.devices())
        if len(devices) > 1 or devices[0].platform != "cpu":
            raise TypeError(
                "an array on a GPU or several devices: carry the result of jax.device_get"
            )
        data = np.asarray(value)  # looks at the array's own memory
        address = data.__array_interface__["data"][0]
        memory = pickler.memory(address, data.nbytes, data) if data.nbytes else b""
        device = devices[0].id if value.committed else None
        return _make_array, (memory, data.dtype, data.shape, device, value.weak_type)

    def array(self, value):
        return np.asarray(value)  # what `reduce` declines has no encoding, and isn't asked here


class _Keys(Codec):
    types = ("jax._src.random.prng.PRNGKeyArray", "jax._src.prng.PRNGKeyArray")

    def reduce(self, value, pickler):
        return _make_key, (jax.random.key_data(value), str(jax.random.key_impl(value)))


for _codec in (_Arrays(), _Keys(), *functions.CODECS):
    register(_codec)
