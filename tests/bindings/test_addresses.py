"""Numbers that may be addresses, wherever the interpreter has its heap."""

import ctypes

import pytest
from holdfast import _store


@pytest.mark.parametrize("size", [64, 4096, 100_000, 8 << 20])
def test_what_malloc_gives_may_be_an_address(size):
    """Debian's Python isn't position-independent: small blocks lie below 4 GiB there."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    block = libc.malloc(size)
    assert _store._may_be_address(block)
    libc.free(block)


def test_objects_and_numbers():
    assert _store._may_be_address(id(object())) and _store._may_be_address(
        id(test_objects_and_numbers)
    )
    for number in (0, -8, 1000, 1 << 20, (1 << 44) - 8, 1 << 48, 1 << 70, -(1 << 70)):
        assert not _store._may_be_address(number), number
