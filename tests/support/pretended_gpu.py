"""Host memory that passes for a GPU's: for tests of how such memory crosses, on any machine.

Imported by the fork server of a kernel, it replaces what torch_devices asks CUDA:
a file stands for the memory that a process shares, and it can be opened while that one lives. What
is done is written to the file that PRETENDED_GPU names, a line each. With PRETENDED_GPU_SHUT
set, no process can open another's memory.
"""

import ctypes
import os
import tempfile

import torch
from holdfast.libraries.torch import devices

_there = []  # the storages on it, never freed: their addresses name them


def gpu(tensor):
    """The tensor, on the GPU."""
    _mark(tensor.untyped_storage())
    return tensor


def _mark(storage):
    _there.append(storage)
    return storage


def _is_there(storage):
    return any(storage.data_ptr() == one.data_ptr() for one in _there)


def _note(what):
    with open(os.environ["PRETENDED_GPU"], "a") as log:
        log.write(f"{what} {os.getpid()}\n")


def _contents(storage):
    return ctypes.string_at(storage.data_ptr(), storage.nbytes())


def _share(storage):
    _note("share")
    fd, path = tempfile.mkstemp(dir=os.path.dirname(os.environ["PRETENDED_GPU"]))
    with open(fd, "wb") as file:
        file.write(_contents(storage))
    return os.getpid(), path


def _open(description):
    pid, path = description
    with open(f"/proc/{pid}/stat") as file:
        alive = file.read().rpartition(")")[2].split()[0] != "Z"
    if os.environ.get("PRETENDED_GPU_SHUT") or not alive:
        raise RuntimeError("CUDA error: invalid device context")
    _note("open")
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).untyped_storage()


def _marked(function, word=""):
    def call(*args):
        if word:
            _note(word)
        return _mark(function(*args))

    return call


def _to_host(storage):
    _note("to-host")
    return torch.UntypedStorage(storage.nbytes()).copy_(storage, False)


devices.is_on_device = _is_there
devices._is_lendable = _is_there
devices._share = _share
devices._open = _open
devices._to_host = _to_host
devices._copy_of = _marked(devices._copy_of)
devices._make_on_device = _marked(devices._make_on_device, "from-host")
