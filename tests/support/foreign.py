"""Entries as a program in another language puts them: through the C functions, whatever they hold."""

import ctypes
from pathlib import Path

from holdfast import _store


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("data", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
        ("region", ctypes.c_void_p),
    ]


class _Value(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("key", ctypes.c_char_p),
        ("key_size", ctypes.c_size_t),
        ("codec", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("meta", ctypes.c_char_p),
        ("meta_size", ctypes.c_size_t),
        ("payload", ctypes.c_char_p),
        ("payload_size", ctypes.c_size_t),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("buffer_count", ctypes.c_uint32),
        ("ret_digests", ctypes.c_void_p),
    ]


def _call(name, *arguments):
    status = getattr(ctypes.CDLL(str(Path(_store.__file__))), name)(*arguments, None)
    assert status == 0, (name, status)


def put(session, key, codec, payload=b"", meta=b"", buffers=()):
    """Commit one entry."""
    handle, commit = ctypes.c_void_p(), ctypes.c_void_p()
    array = (_Buffer * len(buffers))(*[(ctypes.sizeof(_Buffer), b, len(b), None) for b in buffers])
    value = _Value(ctypes.sizeof(_Value), key, len(key), codec, 0, meta, len(meta))
    value.payload, value.payload_size = payload, len(payload)
    value.buffers, value.buffer_count = array, len(buffers)
    _call("hf_session_open_fd", session.fd, ctypes.byref(handle))
    _call("hf_commit_begin", handle, ctypes.byref(commit))
    _call("hf_commit_put", commit, ctypes.byref(value))
    _call("hf_commit_publish_consume", commit, None)
    ctypes.CDLL(str(Path(_store.__file__))).hf_session_close(handle)
