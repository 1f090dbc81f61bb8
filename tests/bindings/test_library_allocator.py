"""PyTorch's large blocks are the arena's, whoever makes and frees them."""

import os
import sys
import threading

import pytest
from needed import needed

from holdfast.store import disable_numpy_allocator, enable_library_allocator

torch = needed("torch")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="import tables are read on Linux only; tensors are copied"
)
MIB = 1 << 20


@pytest.fixture
def arena(main):
    """A main worker whose tensors of 64 KiB or more are born in its session."""
    main.execute("import torch")
    assert enable_library_allocator(main.session, "libc10.so") is True
    yield main
    main.ns.clear()
    disable_numpy_allocator()


def reserved(main):
    return main.session.info()["reserved_bytes"]


def test_what_is_born_there_is_saved_without_a_copy(arena):
    arena.execute(f"x = torch.ones({MIB})\ny = x * 2\nsmall = torch.ones(10)")
    report = arena.commit()
    assert report["bytes_shared"] == 2 * 4 * MIB
    assert report["bytes_copied"] < 4096
    answer = arena.other("import torch\nnames.bind(ns)\nanswer(sum=ns['y'].sum().item())")
    assert answer == {"sum": 2 * MIB}


def test_blocks_are_recycled(arena):
    arena.execute(f"x = torch.ones({MIB})\ny = x + 1\ny = x + 1")
    most = reserved(arena)
    assert most >= 8 * MIB
    for _ in range(20):
        arena.execute("y = x + 1\ndel y")
    assert reserved(arena) == most
    arena.execute(f"y = torch.zeros({MIB})")
    assert reserved(arena) == most and not arena.ns["y"].any()


def test_blocks_grow_and_change_sides(arena):
    arena.execute(f"x = torch.arange({MIB})\nx.resize_({2 * MIB})\nsmall = torch.arange(5)")
    assert arena.ns["x"][MIB - 1] == MIB - 1
    arena.execute(f"small.resize_({MIB})\nx.resize_(3)\nx.untyped_storage().resize_(24)")
    assert arena.ns["small"][:5].tolist() == [0, 1, 2, 3, 4]
    assert arena.ns["x"].tolist() == [0, 1, 2]
    assert arena.commit()["bytes_shared"] == 8 * MIB


def test_blocks_of_any_thread(arena):
    made = []

    def work():
        for _ in range(50):
            made.append(torch.full((MIB // 8,), float(len(made))))
            if len(made) > 8:
                made.pop(0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    arena.ns["made"] = list(made)
    report = arena.commit()
    assert report["bytes_shared"] == len(made) * MIB // 2


def test_a_fork_takes_none_and_gives_none_back(arena):
    arena.execute(f"x = torch.ones({MIB})")
    before = reserved(arena)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            torch.set_num_threads(1)  # the parent's OpenMP pool is not there
            mine = torch.ones(MIB)
            arena.ns.clear()
            status = int(mine.sum().item() != MIB)
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert reserved(arena) == before and arena.ns["x"].sum() == MIB


def test_blocks_outlive_the_arena(main):
    enable_library_allocator(main.session, "libc10.so")
    kept = torch.ones(MIB)
    disable_numpy_allocator()
    after = torch.ones(MIB)
    main.ns["kept"], main.ns["after"] = kept, after
    report = main.commit()
    assert report["bytes_shared"] == 4 * MIB and report["bytes_copied"] >= 4 * MIB
    main.ns.clear()
    del kept, after


def test_a_library_that_is_not_there_or_not_understood(main):
    assert enable_library_allocator(main.session, "libnothing.so") is False
    with pytest.raises(ValueError):
        enable_library_allocator(main.session, "libc10.so", threshold=0)
    with pytest.raises(TypeError):
        enable_library_allocator("session", "libc10.so")


def test_what_tensorflow_was_set_by_the_user_stands(main, monkeypatch):
    from holdfast import _store
    from holdfast.worker import arrays

    taken = []
    monkeypatch.setattr(
        _store, "enable_library_allocator", lambda _session, file: taken.append(file)
    )
    enable = arrays._enabler(main.session, "tensorflow")
    monkeypatch.setenv("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "0")
    enable()
    assert taken == []  # blocks that are cut out of larger ones stay TensorFlow's
    monkeypatch.setenv("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "true")
    enable()
    assert taken == ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]


@pytest.mark.parametrize(
    ("switch", "libraries"), [("0", set()), ("1", {"torch"}), (None, {"torch"})]
)
def test_import_tables_are_left_alone_where_the_user_says_so(main, monkeypatch, switch, libraries):
    from holdfast.worker import arrays

    enabled = []
    monkeypatch.setattr(arrays, "_enabler", lambda _session, module: lambda: enabled.append(module))
    monkeypatch.setattr(
        arrays, "call_once_imported", lambda module, call: module == "torch" and call()
    )
    monkeypatch.setattr(arrays, "_LIBRARIES", {"torch": ("libc10.so",)})
    monkeypatch.delenv("HOLDFAST_LIBRARY_MEMORY", raising=False)
    if switch is not None:
        monkeypatch.setenv("HOLDFAST_LIBRARY_MEMORY", switch)
    try:
        arrays.be_born_in(main.session)
    finally:
        disable_numpy_allocator()
    assert set(enabled) == libraries
