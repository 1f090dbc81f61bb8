"""PyTorch: modules and functions of TorchScript, scripted or traced.

Their code lives in C++, and PyTorch writes it to an archive of its own, with all tensors in it.
The archive that is carried is of a module without its parameters and buffers: these are tensors as
any other, mapped and shared, and are put into the module that was read. So an optimizer goes on
with them. A traced module is a scripted one afterwards, as after `torch.jit.load`.

A function's archive is that of a module around it, of which the function's graph is taken again.
The defaults of its arguments aren't in a graph, so a function with some is unserializable, and so is a
method, which is a place in a module.
"""

from __future__ import annotations

import io
import typing as t

import torch

from . import Codec

_Held = list[tuple[str, str, t.Any]]


# ---- what a pickle calls when it is read ----------------------------------------------------


def _make_module(archive):
    return torch.jit.load(io.BytesIO(archive))


def _fill_module(module, held: _Held):
    modules = dict(module.named_modules())
    for path, name, tensor in held:
        modules[path]._c.setattr(name, tensor)


def _make_function(archive, name, attributes):
    graph = torch.jit.load(io.BytesIO(archive)).forward.inlined_graph.copy()
    graph.eraseInput(0)  # the module
    function = torch._C._create_function_from_graph(name, graph)
    vars(function).update(attributes)
    return function


# ---- taking apart ---------------------------------------------------------------------------


def _tensors_of(module: t.Any) -> list[str]:
    return [*module._parameters.keys(), *module._buffers.keys()]


def _held_by(module: t.Any) -> _Held:
    return [
        (path, name, getattr(one, name))
        for path, one in module.named_modules()
        for name in _tensors_of(one)
    ]


def _without_tensors(module: t.Any) -> t.Any:
    light = module._c._replicate_for_data_parallel()
    for name in _tensors_of(module):
        tensor = getattr(module, name)
        if tensor is not None:
            light.setattr(name, torch.empty(0, dtype=tensor.dtype, device="cpu"))
    for name, child in module._modules.items():
        light.setattr(name, _without_tensors(child))
    return light


class _Modules(Codec):
    types = ("torch.jit._script.ScriptModule",)

    def reduce(self, value, pickler):
        archive = _without_tensors(value).save_to_buffer()
        return _make_module, (archive,), _held_by(value), None, None, _fill_module

    def shares(self, value):
        return [tensor for _, _, tensor in _held_by(value) if tensor is not None]


class _Functions(Codec):
    types = ("torch.jit.torch.jit.ScriptFunction",)

    def reduce(self, value, pickler):
        if any(one.has_default_value() for one in value.schema.arguments):
            raise TypeError(
                "a function of TorchScript whose arguments have defaults: script it in the cell "
                "that calls it, or give it all arguments"
            )
        return _make_function, (value.save_to_buffer(), value.name, vars(value))


class _Methods(Codec):
    types = ("torch.ScriptMethod",)

    def reduce(self, value, pickler):
        raise TypeError("a method of a script module: carry the module")


CODECS = _Modules(), _Functions(), _Methods()
