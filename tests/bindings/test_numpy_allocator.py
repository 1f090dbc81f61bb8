"""New arrays are born in the arena, and cross without a copy."""

import _thread
import asyncio
import concurrent.futures
import contextvars
import os
import threading

import numpy as np
import pytest

from holdfast import store

pytestmark = pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) < (1, 22), reason="needs NumPy 1.22"
)


@pytest.fixture
def arena(session):
    store.enable_numpy_allocator(session, threshold=65536)
    yield session
    store.disable_numpy_allocator()


def reserved(session):
    return session.info()["reserved_bytes"]


def test_an_array_born_there_is_not_copied(arena, main):
    main.ns["x"] = np.arange(1_000_000.0)
    main.ns["y"] = main.ns["x"].reshape(1000, 1000).T
    main.ns["z"] = np.ones((500, 500)) * 2
    report = main.commit()
    assert report["bytes_copied"] < 4096  # the entries' own payloads
    assert report["bytes_shared"] == 8_000_000 + 2_000_000
    main.other("""
names.bind(ns)
assert ns["x"][-1] == 999999 and ns["y"][1, 0] == 1 and ns["z"].sum() == 500000
""")


def test_a_lone_array_copies_no_byte(arena, main):
    main.ns["x"] = np.arange(1_000_000.0)
    report = main.commit()
    assert (report["bytes_copied"], report["bytes_shared"]) == (0, 8_000_000)
    assert main.commit()["prepared"] is None


def test_writing_after_sealing_touches_only_this_process(arena, main):
    main.ns["x"] = np.zeros(100_000)
    main.commit()
    main.ns["x"][0] = 1
    main.other('names.bind(ns); assert ns["x"][0] == 0')
    report = main.commit()
    assert (report["pages_changed"], report["bytes_copied"]) == (1, 4096)
    main.other('names.bind(ns); assert ns["x"][0] == 1')


def test_calloc_is_zero_and_memory_comes_back(arena):
    before = reserved(arena)
    dirty = np.full(200_000, 7.0)
    assert reserved(arena) > before
    del dirty
    assert not np.zeros(200_000).any()
    arena.reap(trim=True)
    assert reserved(arena) == before


def test_realloc_keeps_contents(arena):
    array = np.arange(20_000.0)
    for size in (100_000, 30_000, 10, 50_000):
        kept = array[: min(size, array.size)].copy()
        array.resize(size, refcheck=False)
        assert (array[: kept.size] == kept).all() and not array[kept.size :].any()


def test_small_and_old_arrays_are_not_there(arena):
    before = reserved(arena)
    small = np.zeros(1000)
    assert reserved(arena) == before
    store.disable_numpy_allocator()
    large = np.zeros(100_000)
    assert reserved(arena) == before and small.size < large.size


def test_an_array_may_outlive_the_handler(arena):
    array = np.ones(100_000)
    store.disable_numpy_allocator()
    assert array.sum() == 100_000
    del array


def test_a_full_arena_falls_back_to_malloc():
    with store.Session.create(capacity=4 << 20) as session:
        store.enable_numpy_allocator(session)
        try:
            assert np.ones(2_000_000).sum() == 2_000_000
        finally:
            store.disable_numpy_allocator()
        session.destroy()


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def in_pool(call):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(call).result()


def in_task(call):
    async def main():
        await asyncio.create_task(asyncio.to_thread(call))
        await asyncio.get_running_loop().run_in_executor(None, call)

    asyncio.run(main())


def in_empty_context(call):
    contextvars.Context().run(call)


def below_threading(call):
    """As C code or `_thread` starts one: nothing of threading's runs in it."""
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(lambda: (call(), done.release()), ())
    assert done.acquire(timeout=60)


@pytest.mark.parametrize(
    "way",
    [in_thread, in_pool, in_task, in_empty_context, below_threading],
    ids=lambda f: f.__name__,
)
def test_born_there_whoever_runs(arena, main, way):
    made = []
    way(lambda: made.append(np.full(100_000, 3.0)))
    assert made and reserved(arena) >= 800_000 * len(made)
    main.ns["made"] = made[-1]
    report = main.commit()
    assert (report["bytes_copied"], report["bytes_shared"]) == (0, 800_000)


def test_what_was_made_before_is_freed_by_who_made_it(session):
    large = [np.arange(100_000 + number) for number in range(20)]
    small = [np.arange(number) for number in range(100)]
    store.enable_numpy_allocator(session, threshold=1024)
    try:
        large += [np.arange(100_000) for number in range(20)]
        small += [np.arange(number) for number in range(100)]
        large[0].resize(300_000, refcheck=False)
        assert large[0][99_999] == 99_999 and large[0][-1] == 0
        assert all((array == np.arange(array.size)).all() for array in large[1:] + small)
        del large[::2], small[::2]
    finally:
        store.disable_numpy_allocator()
    assert all((array == np.arange(array.size)).all() for array in large + small)


def test_one_session_after_the_other():
    arrays = []
    for number in range(3):
        with store.Session.create() as session:
            store.enable_numpy_allocator(session)
            arrays.append(np.full(100_000, number))
            assert reserved(session) > 0
            store.disable_numpy_allocator()
            session.destroy()
    for number, array in enumerate(arrays):
        assert (array == number).all()
    assert np.ones(100_000).sum() == 100_000


def test_an_array_names_its_allocator(arena):
    core = np.core if np.__version__.startswith("1.") else np._core
    assert core.multiarray.get_handler_name() == "holdfast_arena"
    assert core.multiarray.get_handler_name(np.zeros(3)) == "holdfast_arena"


def test_threads_allocate_at_once(arena):
    failures = []

    def work(number):
        for step in range(50):
            array = np.full(20_000 + 100 * step, float(number))
            if (array != number).any():
                failures.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threshold_is_checked(session):
    with pytest.raises(ValueError, match="positive"):
        store.enable_numpy_allocator(session, threshold=0)


def test_a_forked_child_has_memory_of_its_own(arena):
    kept = np.zeros(100_000)
    del_me = np.ones(100_000)
    del del_me  # its block is free, for whoever comes first
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            kept[:] = 7
            mine = np.full(100_000, 5.0)
            del mine
            mine = np.full(100_000, 6.0)
            status = 0 if (kept == 7).all() and (mine == 6).all() else 2
        finally:
            os._exit(status)
    mine = np.full(100_000, 3.0)
    assert os.waitpid(pid, 0)[1] == 0
    assert (kept == 0).all() and (mine == 3).all()
    assert reserved(arena) >= 1_600_000
