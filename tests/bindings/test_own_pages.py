"""Pages of a fork: which it has taken, and that those that were taken ahead take no fault."""

import ctypes
import mmap
import os
import resource
import struct
import sys

import pytest

_store = pytest.importorskip("holdfast._store")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's pagemap shows it")

PAGE = mmap.PAGESIZE
PAGES = 256
LARGE = 2048  # pages of a file
WRITTEN = [0, 1, 2, 7, 100, 101, 255]
RUNS = [(0, 3), (7, 1), (100, 2), (255, 1)]


@pytest.fixture
def memory():
    """Private memory of which each page has been written, and its address; as much behind it
    was never touched."""
    memory = mmap.mmap(-1, 2 * PAGES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    write(memory, range(PAGES))
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def write(memory, pages):
    for page in pages:
        memory[page * PAGE] = 1


def packed(address, runs):
    return b"".join(struct.pack("QQ", address + first * PAGE, n * PAGE) for first, n in runs)


def in_fork(function):
    """What `function` returns in a fork, as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, str(function()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read().decode()
    os.waitpid(pid, 0)
    return said


def test_written_pages_are_a_forks_own(memory):
    memory, address = memory
    ranges = packed(address, [(0, PAGES)])
    assert _store._own_pages(ranges) == ranges

    def look():
        before = _store._own_pages(ranges)
        write(memory, WRITTEN)
        return before, _store._own_pages(ranges)

    assert in_fork(look) == str((b"", packed(address, RUNS)))


def test_only_the_ranges_are_looked_at(memory):
    memory, address = memory
    some = packed(address, [(1, 1), (3, 4), (100, 200)])

    def look():
        write(memory, WRITTEN)
        return _store._own_pages(some)

    # The last range ends in what was never touched.
    assert in_fork(look) == str(packed(address, [(1, 1), (100, 2), (255, 1)]))


def test_copied_pages_take_no_fault_and_keep_their_bytes(memory):
    memory, address = memory

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def taken(ahead):
        copied = _store._copy_pages(ahead)
        before = faults()
        write(memory, range(0, PAGES, 2))
        return copied, (faults() - before) // 100, memory[0], memory[PAGES * PAGE - PAGE]

    assert in_fork(lambda: taken(b"")) == "(0, 1, 1, 1)"
    assert in_fork(lambda: taken(packed(address, [(0, PAGES)]))) == f"({PAGES * PAGE}, 0, 1, 1)"


def test_what_is_not_there_is_passed_over(memory):
    memory, address = memory
    gone = [(-(address // PAGE) + 1, 1)]  # the second page of the address space
    runs = packed(address, gone + [(0, 1)])
    assert _store._copy_pages(runs) == PAGE
    assert _store._copy_pages(runs[:-1]) == 0  # half of a run is none
    assert _store._own_pages(packed(address, gone)) == b""


@pytest.fixture
def code(tmp_path):
    """A file mapped as a library's code is, so that nobody may write to it; and where."""
    path = tmp_path / "code"
    path.write_bytes(bytes(LARGE * PAGE))
    call = ctypes.CDLL(None).mmap
    call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p] + [ctypes.c_size_t] * 5
    with open(path, "rb") as file:
        how = (mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file.fileno(), 0)
        return call(None, LARGE * PAGE, *how)


def test_pages_of_files_that_were_met_are_met_by_a_fork_ahead(code):
    ranges = packed(code, [(0, LARGE)])

    def met(ahead=b""):
        _store._copy_pages(ahead)
        return _store._file_pages(ranges)

    assert met() == b""
    for page in range(0, LARGE, 16):
        ctypes.string_at(code + page * PAGE, 1)
    here = met()
    assert here and _store._own_pages(ranges) == b""
    assert in_fork(met) == "b''"
    assert in_fork(lambda: met(here) == here) == "True"
