"""PyTorch: storages, tensors of every layout, parameters, generators.

In PyTorch, storages hold the memory, and a tensor is a place in a storage. So a storage is pickled once, as
memory, and a tensor as its storage, offset, shape and strides. Modules, optimizers, quantized and nested
tensors, and subclasses that are made of other tensors have their own pickling, which comes down to these.

PyTorch's own way to pickle a tensor isn't used. It copies every storage into the pickle, and leaves out the
gradient and the hooks. It makes a leaf of a computed tensor, so `backward()` would do nothing, without an
error. Here a tensor that was computed with gradients keeps its value and `requires_grad`. The graph behind it
lives in C++ and stays in its process. `backward()` through it raises an error that says so.

Storages on a GPU are in devices.py, optimizers in optimizers.py.

A tensor that is pickled by itself, as most variables are, is made of its memory in one call. In a new process
each call of PyTorch's reads 100 to 500 cache lines of code and data for the first time.

A restored storage lies in the mapped region and holds it. It can be written, and replaced (`set_`, `.data`). It
can't grow in place. That holds for each storage that PyTorch didn't allocate itself.
"""

from __future__ import annotations

import functools

import torch

from holdfast.base.no_warnings import no_warnings
from holdfast.codecs import Codec, register
from holdfast.libraries.torch import devices, optimizers

_NO_GRAPH = (
    "the autograd graph of this tensor was not carried between the notebook's process and the "
    "cell's: only its value was. Compute it and call backward() in the same cell"
)


def _unseen(function):
    """Hide the PyTorch calls of a function from `TorchFunctionMode` and `__torch_function__`."""

    @functools.wraps(function)
    def unseen(*args):
        with torch._C.DisableTorchFunction():
            return function(*args)

    return unseen


class _GraphNotCarried(torch.autograd.Function):
    """Stands for a graph that is in another process."""

    @staticmethod
    def forward(ctx, anchor, box):
        return box[0]  # it isn't an argument itself, so the result isn't a view of one

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError(_NO_GRAPH)


# ---- what a pickle calls when it is read ----------------------------------------------------


def _make_storage(memory):
    if memory is None:
        return torch.UntypedStorage(0)
    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()


def _make_typed_storage(storage, dtype):
    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _make_strided(storage, dtype, offset, size, stride, bits):
    tensor = torch.empty((0,), dtype=dtype, device=storage.device)
    tensor.set_(storage, offset, size, stride)
    if bits:
        torch._utils.set_tensor_metadata(tensor, bits)
    return tensor


def _make_whole(memory, dtype, offset, size, stride):
    tensor = torch.frombuffer(memory, dtype=dtype)
    if type(memory) is bytearray:  # small memory: the copy can be resized
        tensor = tensor.clone()
    if size != tensor.size() or stride != (1,):
        tensor.set_(tensor.untyped_storage(), offset, size, stride)
    return tensor


def _make_sparse(layout, parts, size, coalesced):
    if layout == torch.sparse_coo:
        tensor = torch.sparse_coo_tensor(*parts, size, check_invariants=False)
        return tensor._coalesced_(coalesced)
    with no_warnings():  # the warning of a new layout was shown when the tensor was made
        return torch.sparse_compressed_tensor(*parts, size, layout=layout, check_invariants=False)


def _make_meta(dtype, size, stride):
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


@_unseen
def _make_tensor(make, args, cls, requires_grad, is_leaf):
    if make is _make_strided:  # it is made from a storage, so no graph leads to it
        tensor = make(*args)
    else:
        with torch.no_grad():
            tensor = make(*args)
    if cls is not torch.Tensor:
        tensor = torch.Tensor._make_subclass(cls, tensor, False)
    if requires_grad and is_leaf:
        tensor.requires_grad_(True)
    elif requires_grad:
        anchor = torch.empty(0, device="cpu", requires_grad=True)
        with torch.enable_grad():
            tensor = _GraphNotCarried.apply(anchor, [tensor])
    return tensor


def _make_inference(*how):
    """A tensor that was made in `torch.inference_mode()`. Autograd refuses it."""
    with torch.inference_mode():
        return _make_tensor(*how)


@_unseen
def _fill_tensor(tensor, state):
    attributes, slots, gradient, hooks, after_hooks = state
    if attributes:
        tensor.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(tensor, name, value)
    if gradient is not None:
        if not tensor.is_leaf:
            tensor.retain_grad()
        tensor.grad = gradient
    if hooks:
        tensor._backward_hooks = hooks
    if after_hooks:
        tensor._post_accumulate_grad_hooks = after_hooks


def _make_generator(device, state):
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


def _find_in_torch(name):
    return getattr(torch, name)


# ---- taking apart ---------------------------------------------------------------------------


def _has_own_pickling(tensor):
    """Whether a tensor isn't storage and strides, or its class says how it is pickled."""
    cls = type(tensor)
    return (
        cls.__reduce_ex__ not in (torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__)
        or cls.__reduce__ is not torch.Tensor.__reduce__
        or cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        or tensor.is_quantized
        or tensor.is_nested
        or not (tensor.device.type == "meta" or tensor.is_sparse or _is_compressed(tensor))
        and not torch._C._has_storage(tensor)
    )


_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def _is_compressed(tensor):
    return tensor.layout in _COMPRESSED


def _parts_of_sparse(tensor):
    """The dense tensors of which a sparse one is made."""
    tensor = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        return tensor._indices(), tensor._values()
    first, second = _COMPRESSED[tensor.layout]
    return getattr(tensor, first)(), getattr(tensor, second)(), tensor.values()


def _how_to_make(tensor):
    size = tuple(tensor.size())
    if tensor.device.type == "meta":
        return _make_meta, (tensor.dtype, size, tensor.stride())
    if tensor.is_sparse or _is_compressed(tensor):
        coalesced = tensor.is_sparse and tensor.is_coalesced()
        return _make_sparse, (tensor.layout, _parts_of_sparse(tensor), size, coalesced)
    # Bits for operations that PyTorch does later: conjugation, negation.
    bits = torch._utils.get_tensor_metadata(tensor)
    place = tensor.storage_offset(), size, tensor.stride()
    return _make_strided, (tensor.untyped_storage(), tensor.dtype, *place, bits)


def _is_whole_of(tensor, pickler):
    """Whether the tensor is all that is pickled, and only numbers in memory. Then no other object
    can ask for its storage, and it is made of the memory in one call."""
    if not (
        tensor is pickler.root
        and type(tensor) is torch.Tensor
        and tensor.layout == torch.strided
        and not tensor.requires_grad
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_inference())
    ):
        return False
    storage = tensor.untyped_storage()
    return (
        not devices.is_on_device(storage)
        and 0 < storage.nbytes()
        and storage.nbytes() % tensor.itemsize == 0
        and _state_of(tensor) is None
    )


def _reduce_whole(tensor, pickler):
    storage, place = tensor.untyped_storage(), (tensor.storage_offset(), tuple(tensor.size()))
    memory = pickler.memory(storage.data_ptr(), storage.nbytes(), storage)
    return _make_whole, (memory, tensor.dtype, *place, tensor.stride())


def _gradient(tensor):
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _state_of(tensor):
    state = tensor.__getstate__()
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    hooks = tensor._backward_hooks if tensor.is_leaf else None
    after_hooks = getattr(tensor, "_post_accumulate_grad_hooks", None)
    whole = attributes, slots, _gradient(tensor), hooks or None, after_hooks or None
    return whole if any(part is not None for part in whole) else None


class _Tensors(Codec):
    types = ("torch.Tensor",)

    @_unseen
    def reduce(self, value, pickler):
        if _has_own_pickling(value):
            return NotImplemented
        if _is_whole_of(value, pickler):
            return _reduce_whole(value, pickler)
        how = *_how_to_make(value), type(value), value.requires_grad, value.is_leaf
        make = _make_inference if value.is_inference() else _make_tensor
        return make, how, _state_of(value), None, None, _fill_tensor

    @_unseen
    def shares(self, value):
        gradient = _gradient(value)
        found = [] if gradient is None else [gradient]
        if value.is_sparse or _is_compressed(value):
            return [*found, *(_address(part) for part in _parts_of_sparse(value))]
        return found if _has_own_pickling(value) else [*found, _address(value)]

    @_unseen
    def array(self, value):
        import numpy  # PyTorch doesn't need it

        # Not by the tensor's `numpy()`, after which PyTorch doesn't resize it any more.
        return numpy.from_dlpack(value.detach())

    @_unseen
    def memory(self, value):
        storage = value.untyped_storage()
        return storage.data_ptr(), storage.nbytes()


def _address(tensor):
    return 0 if tensor.device.type == "meta" else tensor.untyped_storage().data_ptr()


class _Storages(Codec):
    types = ("torch.storage.UntypedStorage",)

    def reduce(self, value, pickler):
        if value.device.type == "meta":
            raise TypeError("a storage on no device has no contents; its tensors can be carried")
        if devices.is_on_device(value):
            return devices.reduce_storage(value, pickler.notes)
        if not value.nbytes():
            return _make_storage, (None,)
        return _make_storage, (pickler.memory(value.data_ptr(), value.nbytes(), value),)

    def shares(self, value):
        return (value.data_ptr(),) if value.device.type != "meta" else ()


class _TypedStorages(Codec):
    types = ("torch.storage.TypedStorage",)

    def reduce(self, value, pickler):
        return _make_typed_storage, (value._untyped_storage, value.dtype)

    def shares(self, value):
        return (value._untyped_storage,)


class _Generators(Codec):
    types = ("torch._C.Generator",)

    def reduce(self, value, pickler):
        return _make_generator, (value.device, value.get_state())


class _MemoryFormats(Codec):
    """By name: their own pickling looks for "torch.channels_last" in any module with a `torch`."""

    types = ("torch.memory_format",)

    def reduce(self, value, pickler):
        return _find_in_torch, (str(value).removeprefix("torch."),)


class _Handles(Codec):
    """The handle that `register_hook` returns. It refers weakly to the dict of hooks from which it
    removes itself."""

    types = ("torch.utils.hooks.RemovableHandle",)

    def shares(self, value):
        references = (value.hooks_dict_ref, *value.extra_dict_ref)
        return [hooks for hooks in (refer() for refer in references) if hooks is not None]


for _codec in (
    _Tensors(),
    _Storages(),
    _TypedStorages(),
    _Generators(),
    _Handles(),
    _MemoryFormats(),
    *optimizers.CODECS,
):
    register(_codec)


def samples():
    """A tensor of which an element was read, written and added to: PyTorch looks at the processor
    before the first operation of a kind."""
    tensor = torch.ones(2)
    tensor[0] = float(tensor[1])
    tensor[0] += 1
    return (tensor,)
