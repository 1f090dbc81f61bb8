"""PyTorch's storages on a GPU.

Small storages, and those on devices other than CUDA's, cross through host memory, once each. So do TensorFlow's tensors
on a GPU, by their own pickling. CuPy's and JAX's arrays on a GPU are unserializable, and so are tensors that have their
memory from another library (DLPack): the copy would be independent of that library's object.

A large storage on a CUDA device is lent (device_lease.py). Its encoding is a number, a digest of its contents, and
its bytes if the rule there asks for them. The process that decodes it opens the owner's memory by PyTorch's own
interface (`_share_cuda_`, `_new_shared_cuda`), copies it on the device, and closes it. It needs a copy: both
sides could write to shared memory, and a cell that fails must have changed nothing.

The digest is computed on the device. It has two uses. If it shows that a storage equals what the store has, the
storage isn't transferred again. It also shows whether a copy equals what was encoded: if the owner died or went on
writing meanwhile, that is an error, never different numbers. PyTorch's own version counter isn't enough. It doesn't
count writes through views that `.data` or DLPack made, or by kernels of other libraries. The digest is two sums of
products, of each word of 32 bits with 63 random bits. Two different contents have the same digest with a
probability of about 2**-64.

A storage is shared once, and its description is used again: each `_share_cuda_` would wrap its memory anew. So
PyTorch's count of receivers falls below zero, which it treats as none. The owner itself keeps what it lends.
Nothing here calls CUDA before it meets a storage on a GPU, so the fork server and a standby can be forked.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import typing as t

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from holdfast.carry import context, device_lease
from holdfast.codecs import LENT

BYTES_MIN = 1 << 20  # a smaller copy costs less than opening another process's memory
_ROW = 1 << 16  # words of a digest's sum
_ROWS = 16  # so many rows are summed at a time: 32 MiB of the device's memory
_PRUNE_MIN = 128


class _Known:
    """What is known of a storage of this process."""

    def __init__(self, storage: torch.UntypedStorage, number: int, digest: bytes):
        self.reference = StorageWeakRef(storage)
        self.number = number
        self.digest = digest
        self.host: torch.UntypedStorage | None = None  # its bytes, as the store has them
        self.shared: tuple[int, int, tuple] | None = None  # address, size, description

    def storage(self) -> torch.UntypedStorage | None:
        """The storage. None if it doesn't exist any more."""
        return torch.UntypedStorage._new_with_weak_ptr(self.reference.cdata)


class _Registry:
    """The large storages that this process has encoded or decoded."""

    def __init__(self) -> None:
        # A key can't be used for another storage while its entry has a weak reference.
        self._by_place: dict[int, _Known] = {}
        self._by_number: dict[int, _Known] = {}
        self._limit = _PRUNE_MIN

    def find(self, storage: torch.UntypedStorage) -> _Known | None:
        return self._by_place.get(storage._cdata)

    def numbered(self, number: int) -> _Known | None:
        known = self._by_number.get(number)
        return None if known is None or known.reference.expired() else known

    def add(self, storage: torch.UntypedStorage, number: int, digest: bytes) -> _Known:
        before = self.numbered(number)
        if before is not None:  # a cell has changed it, and the new storage has its number
            before.number = device_lease.new_number()
            self._by_number[before.number] = before
        known = _Known(storage, number, digest)
        self._by_place[storage._cdata] = self._by_number[number] = known
        if len(self._by_place) > self._limit:
            self._prune()
        return known

    def _prune(self) -> None:
        for table in (self._by_place, self._by_number):
            for key in [key for key, known in table.items() if known.reference.expired()]:
                del table[key]
        self._limit = max(_PRUNE_MIN, 2 * len(self._by_place))


_registry = _Registry()


# ---- the device -----------------------------------------------------------------------------


def is_on_device(storage: torch.UntypedStorage) -> bool:
    """Whether a storage lies in a device's memory, and is encoded by this module."""
    return storage.device.type != "cpu"


def _is_foreign(storage):
    """Whether its memory isn't PyTorch's own."""
    return not storage.resizable()


def _is_lendable(storage):
    return storage.device.type == "cuda" and storage.nbytes() >= BYTES_MIN


def _to_host(storage):
    _settle(storage.device)
    return torch.UntypedStorage(storage.nbytes()).copy_(storage, False)


def _settle(device):
    """Wait until other streams have written their results to memory."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _share(storage):
    """The description by which another process opens it. Raises an exception if it can't be
    shared."""
    return storage._share_cuda_()


def _open(description):
    torch.cuda._lazy_init()
    return torch.UntypedStorage._new_shared_cuda(*description)


def _copy_of(storage, device):
    own = torch.UntypedStorage(storage.nbytes(), device=device).copy_(storage, False)
    _settle(own.device)
    return own


@functools.lru_cache(maxsize=8)
def _factors(device):
    generator = torch.Generator().manual_seed(0x686F6C6466617374)
    numbers = torch.empty((2, _ROW), dtype=torch.int64, device="cpu").random_(generator=generator)
    return numbers.to(device)


def _bytes_of(tensor):
    host = tensor.cpu()
    return ctypes.string_at(host.data_ptr(), host.nbytes)


@torch.no_grad()
def digest_of(storage: torch.UntypedStorage) -> bytes:
    """The digest of a storage's contents, 16 bytes, computed on its device."""
    _settle(storage.device)
    size = storage.nbytes()
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (size,), (1,))
    count = size // (4 * _ROW)
    rows = flat[: 4 * _ROW * count].view(torch.int32).view(count, _ROW)
    sums = torch.empty((2, count), dtype=torch.int64, device=storage.device)
    factors = _factors(storage.device)
    for start in range(0, count, _ROWS):
        part = rows[start : start + _ROWS].to(torch.int64)
        for each in (0, 1):
            torch.sum(part * factors[each], 1, out=sums[each, start : start + len(part)])
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
    digest.update(_bytes_of(sums))
    digest.update(_bytes_of(flat[4 * _ROW * count :]))
    return digest.digest()


# ---- what a pickle calls when it is read ----------------------------------------------------


def _make_on_device(host, device):
    return torch.UntypedStorage(host.nbytes(), device=device).copy_(host, False)


def _make_lent(number, digest, device, size, host):
    known = _registry.numbered(number)
    own = None if known is None else known.storage()
    if own is not None and digest_of(own) == digest:
        return own
    if context.is_comparing():
        raise OSError("the memory that is compared with it has other contents")
    made = _borrow(number, digest, device)
    if made is None and host is None:
        made = _fetch_bytes(number, digest, device, size)
    if made is None and host is not None:
        made = _make_on_device(host, device)
    if made is None:
        raise OSError(
            "its contents lay in GPU memory of a process that is gone, or that went on changing it"
        )
    _registry.add(made, number, digest).host = host
    device_lease.leases.left_out |= host is None
    return made


def _borrow(number, digest, device):
    """A copy of what another process lends. None if it can't be opened, or has changed."""
    description = device_lease.leases.find(number)
    if description is None:
        return None
    try:
        made = _copy_of(_open(description), device)
    except RuntimeError:  # the other process's memory can't be opened: the bytes are asked for
        return None
    if digest_of(made) != digest:
        return None
    device_lease.leases.has_opened()
    return made


def _fetch_bytes(number, digest, device, size):
    file = device_lease.leases.find_bytes(number)
    if file is None:
        return None
    with file:
        host = torch.UntypedStorage(size)
        file.seek(0)
        file.readinto((ctypes.c_char * size).from_address(host.data_ptr()))
    made = _make_on_device(host, device)
    return made if digest_of(made) == digest else None


# ---- taking apart ---------------------------------------------------------------------------


def reduce_storage(storage: torch.UntypedStorage, notes: dict[t.Any, t.Any]) -> tuple[t.Any, ...]:
    """How a storage on a device is pickled: as `__reduce__` would return it. `notes` are the
    pickler's."""
    device = str(storage.device)
    if storage.device.type == "cuda" and _is_foreign(storage):
        raise TypeError("memory on a GPU that another library shares: carry its clone")
    if not (context.in_store() and _is_lendable(storage)):
        return _make_on_device, (_to_host(storage), device)
    digest = digest_of(storage)
    known = _registry.find(storage)
    as_it_came = known is not None and known.digest == digest
    if known is None:
        known = _registry.add(storage, device_lease.new_number(), digest)
    elif not as_it_came:
        known.digest, known.host = digest, None
    if known.host is None and _needs_bytes(known, as_it_came):
        known.host = _to_host(storage)
    if known.host is None:
        device_lease.leases.left_out = notes[LENT] = True
    return _make_lent, (known.number, known.digest, device, storage.nbytes(), known.host)


def _needs_bytes(known, as_it_came):
    leases = device_lease.leases
    if leases.durable or leases.answers:
        return not leases.may_leave_out()
    # In a cell: memory that it didn't change is in the store as the main worker knows it.
    return not as_it_came and not (leases.may_leave_out() and leases.lend(known.number))


# ---- device-memory leases -----------------------------------------------------------------------


def _describe(number):
    known = _registry.numbered(number)
    storage = None if known is None else known.storage()
    if storage is None:
        return None
    place = storage.data_ptr(), storage.nbytes()
    if known.shared is None or known.shared[:2] != place:
        try:
            known.shared = *place, _share(storage)
        except RuntimeError:  # its allocator's memory can't be shared
            return None
    return known.shared[2]


def _copy_out(number, file):
    known = _registry.numbered(number)
    storage = None if known is None else known.storage()
    if storage is None:
        return False
    host = _to_host(storage)
    view = (ctypes.c_char * host.nbytes()).from_address(host.data_ptr())
    file.write(memoryview(view).cast("B"))
    return True


device_lease.leases.describe = _describe
device_lease.leases.copy_out = _copy_out
