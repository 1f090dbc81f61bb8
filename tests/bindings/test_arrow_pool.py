"""Arrow's new buffers are born in the arena, and cross without a copy."""

import platform
import sys
import threading

import numpy as np
import pytest
from needed import needed

from holdfast import store

pa = needed("pyarrow")
pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and platform.machine() == "x86_64"),
    reason="done for the C++ ABI of Linux on x86-64",
)


@pytest.fixture
def arena(session):
    assert store.enable_arrow_pool(session), "pyarrow's pool isn't understood"
    yield session
    store.disable_numpy_allocator()


def reserved(session):
    return session.info()["reserved_bytes"]


def test_what_is_born_there_is_not_copied(arena, main):
    main.ns["x"] = pa.array(range(100_000))
    main.ns["y"] = pa.table({"s": ["x" * 9] * 100_000, "x": main.ns["x"]})
    main.ns["z"] = pa.compute.add(main.ns["x"], 1)
    report = main.commit()
    assert report["bytes_copied"] < 3 * 4096
    assert report["bytes_shared"] >= 2 * 800_000 + 900_000
    assert main.commit()["prepared"] is None
    answer = main.other(
        "names.bind(ns)\nx, y, z = ns['x'], ns['y'], ns['z']\n"
        "answer(x=x[99_999].as_py(), y=y['s'][99_999].as_py(), z=z[99_999].as_py(),"
        " same=y['x'].chunk(0).buffers()[1].address == x.buffers()[1].address)"
    )
    assert answer == {"x": 99_999, "y": "x" * 9, "z": 100_000, "same": True}


def test_a_result_of_a_cell_is_published_by_reference(main):
    answer = main.other(
        "import pyarrow as pa, pyarrow.compute\nassert enable_arrow_pool(session)\n"
        "names.bind(ns)\nns['x'] = pa.compute.multiply(pa.array(range(200_000)), 2)\n"
        "report = save(ns)\npublish(report)\nanswer(copied=report['bytes_copied'])"
    )
    assert answer["copied"] < 4096
    main.names.adopt(main.ns)
    assert main.ns["x"][199_999].as_py() == 399_998


def test_memory_comes_back_and_small_blocks_are_arrow_s(arena):
    before, counted = reserved(arena), pa.total_allocated_bytes()
    small = pa.allocate_buffer(1000)
    assert reserved(arena) == before and pa.total_allocated_bytes() > counted
    large = pa.allocate_buffer(1 << 22)
    assert reserved(arena) >= before + (1 << 22)
    del small, large
    arena.reap(trim=True)
    assert reserved(arena) == before


def test_buffers_that_grow_and_shrink_keep_what_is_in_them(arena):
    sink = pa.BufferOutputStream()
    for number in range(300):  # from small to large, block by block
        sink.write(bytes([number % 256]) * 10_000)
    grown = sink.getvalue()
    assert grown.size == 3_000_000
    assert np.frombuffer(grown, "u1")[::10_000].tolist() == [n % 256 for n in range(300)]
    resizable = pa.allocate_buffer(1 << 20, resizable=True)
    view = np.frombuffer(resizable, "u1")
    view[:] = np.arange(1 << 20) % 251
    del view
    for size in (1 << 20, 900_000, 100_000, 70, 80_000, 1 << 21):
        kept = min(size, resizable.size)
        expected = np.frombuffer(resizable, "u1")[:kept].copy()
        resizable.resize(size, shrink_to_fit=True)
        assert (np.frombuffer(resizable, "u1")[:kept] == expected).all()


def test_a_full_arena_leaves_it_to_arrow(tmp_path):
    with store.Session.create(capacity=1 << 28) as small:
        assert store.enable_arrow_pool(small)
        kept = [pa.allocate_buffer(1 << 26) for _ in range(8)]
        for buffer in kept:
            np.frombuffer(buffer, "u1")[:] = 1
        store.disable_numpy_allocator()
        del kept, buffer
        small.destroy()


def test_blocks_outlive_their_session_s_turn(session):
    assert store.enable_arrow_pool(session)
    table = pa.table({"x": range(100_000)})
    store.disable_numpy_allocator()
    after = pa.array(range(100_000))
    assert table["x"].chunk(0).equals(after)
    del table


def test_threads_of_arrow_and_of_python(arena, tmp_path):
    import pyarrow.parquet

    table = pa.table({f"c{i}": np.arange(200_000) + i for i in range(8)})
    pyarrow.parquet.write_table(table, tmp_path / "t", row_group_size=20_000)
    same = []

    def read():
        for _ in range(5):
            same.append(pyarrow.parquet.read_table(tmp_path / "t").equals(table))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same == [True] * 20


def test_without_pyarrow_nothing_is_done(session):
    import subprocess

    source = (
        "import sys\nfrom holdfast.store import *\nsession = Session.from_fd(int(sys.argv[1]))\n"
        "print(enable_arrow_pool(session), 'pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(session.fd)],
        pass_fds=[session.fd],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["False", "False"], done.stderr
