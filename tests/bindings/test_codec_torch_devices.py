"""Storages on a GPU: the digest of their contents, and which of them are lent."""

import pytest
from needed import needed

torch = needed("torch")

WORDS = 5 * (1 << 16) + 3  # five sums and a rest


def digest(tensor):
    from holdfast.libraries.torch.devices import digest_of

    return digest_of(tensor.untyped_storage())


def test_a_digest_differs_between_contents():
    base = torch.arange(WORDS, dtype=torch.float32)
    known = digest(base)
    assert digest(base.clone()) == known
    assert digest(base.clone()[5:]) == known  # the storage is meant, not the view
    row = 1 << 16
    changes = {
        "one": lambda x: x[7].add_(1),
        "one sign": lambda x: x[row].neg_(),
        "all signs": lambda x: x.neg_(),
        "two swapped": lambda x: x[:2].copy_(x[:2].flip(0)),
        "rows swapped": lambda x: x[: 2 * row].copy_(x[: 2 * row].roll(row)),
        "the last": lambda x: x[-1].add_(1),
        "nothing but zeros": lambda x: x.zero_(),
        "its first zero": lambda x: x[0].neg_(),
    }
    found = {known}
    for name, change in changes.items():
        changed = base.clone()
        change(changed)
        found.add(digest(changed))
        assert len(found) == 2 + list(changes).index(name), name
    assert digest(torch.zeros(WORDS + 1)) not in found
    for size in (1, 3, 5):
        found.add(digest(torch.zeros(size, dtype=torch.uint8)))
    assert len(found) == len(changes) + 4


def test_a_digest_disturbs_nothing():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    base = torch.rand(2)
    x = torch.ones(WORDS, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        with torch.device("meta"), torch.inference_mode():
            known = digest(x)
    finally:
        torch.use_deterministic_algorithms(False)
    assert digest(x) == known and x._version == 0 and x.grad_fn is None
    assert torch.equal(base, expected)


def test_bytes_are_left_out_only_where_the_owner_is_there_to_be_asked():
    from holdfast.carry.device_lease import DeviceLeases

    leases = DeviceLeases()
    assert not leases.may_leave_out()  # no kernel
    leases.answers, leases.durable = True, False
    assert leases.may_leave_out()  # the main worker, a cell waits
    leases.durable = True
    leases.has_opened()
    assert not leases.may_leave_out()  # nobody waits: the bytes must outlive the main worker
    cell = DeviceLeases()
    cell.durable = False
    assert not cell.may_leave_out()
    cell.has_opened()
    assert cell.may_leave_out()


def test_what_a_desk_lends_can_be_found_until_it_is_given_back():
    import os

    from holdfast.carry import device_lease, handles

    leases = device_lease.DeviceLeases()
    assert leases.hand_over() is None
    leases.describe = lambda number: ("about", number) if number < 4000 else None
    assert all(leases.lend(2 * number) for number in range(1024))
    assert not leases.lend(3000)  # there are too many
    assert leases.lend(6) and not leases.lend(4000)
    fd = os.dup(leases.hand_over())
    other = device_lease.DeviceLeases()
    try:
        handles.table.arrive(device_lease.CATALOGUE, fd)
        assert other.find(6) == ("about", 6) and other.find(2046) == ("about", 2046)
        assert other.find(3000) is None
    finally:
        handles.table.forget_arrived()
    leases.wait_for_return(60)  # at once: nobody has it


def test_the_main_worker_answers_with_a_description_or_with_the_bytes():
    import os
    import pickle

    from holdfast.carry.device_lease import BYTES, DeviceLeases

    leases = DeviceLeases()
    assert leases.answer(2) is None and leases.answer(2 + BYTES) is None
    leases.describe = lambda number: (number,)
    leases.copy_out = lambda number, file: bool(file.write(b"contents"))
    with os.fdopen(leases.answer(2), "rb") as file:
        assert pickle.load(file) == {2: (2,)}
    with os.fdopen(leases.answer(2 + BYTES), "rb") as file:
        file.seek(0)
        assert file.read() == b"contents"


def test_only_large_storages_of_cuda_are_lent():
    from holdfast.libraries.torch import devices

    host = torch.zeros(1 << 20).untyped_storage()
    assert not devices.is_on_device(host) and not devices._is_lendable(host)
    meta = torch.zeros(1 << 20, device="meta").untyped_storage()
    assert devices.is_on_device(meta) and not devices._is_lendable(meta)
    if torch.cuda.is_available():
        assert devices._is_lendable(torch.zeros(1 << 20, device="cuda").untyped_storage())
        assert not devices._is_lendable(torch.zeros(1000, device="cuda").untyped_storage())


@pytest.fixture
def gpu_generators(monkeypatch):
    """Pretended: a GPU whose generator is one of the CPU. A function that starts CUDA as PyTorch does."""
    cuda = torch.cuda
    own = torch.Generator()
    monkeypatch.setattr(cuda, "_lazy_seed_tracker", type(cuda._lazy_seed_tracker)())
    monkeypatch.setattr(cuda, "default_generators", (own,))
    monkeypatch.setattr(cuda, "is_initialized", lambda: False)
    for module in cuda, cuda.random:
        monkeypatch.setattr(module, "device_count", lambda: 1)

    def start():
        for call in filter(None, cuda._lazy_seed_tracker.get_calls()):
            call[0]()
        monkeypatch.setattr(cuda, "is_initialized", lambda: True)
        return own

    return start


def test_generators_of_gpus_cross_before_and_after_cuda_starts(gpu_generators):
    from holdfast.libraries.torch import _gpu_generators, _set_gpu_generators

    assert _gpu_generators() is None  # nothing has seeded them: any numbers are right
    torch.manual_seed(7)
    assert _gpu_generators() == 7  # CUDA isn't started for this
    states = [bytes(torch.Generator().manual_seed(8).get_state().numpy())]
    _set_gpu_generators(states)
    assert _gpu_generators() == states  # not 7: a clean process that uses no GPU hands nothing back
    own = gpu_generators()
    assert own.initial_seed() == 8 and _gpu_generators() == states
    torch.rand(1, generator=own)
    assert _gpu_generators() != states
    _set_gpu_generators(states)
    assert _gpu_generators() == states
    _set_gpu_generators(5)
    assert own.initial_seed() == 5


def test_what_seeds_a_gpu_later_wins(gpu_generators):
    from holdfast.libraries.torch import _gpu_generators, _set_gpu_generators

    torch.manual_seed(7)
    _set_gpu_generators([bytes(torch.Generator().manual_seed(8).get_state().numpy())])
    torch.manual_seed(9)
    assert _gpu_generators() == 9
    assert gpu_generators().initial_seed() == 9


def test_memory_of_another_library_is_told_from_pytorchs():
    import numpy as np
    from holdfast.libraries.torch.devices import _is_foreign

    assert _is_foreign(torch.from_dlpack(np.ones(3)).untyped_storage())
    assert not _is_foreign(torch.ones(3).untyped_storage())
