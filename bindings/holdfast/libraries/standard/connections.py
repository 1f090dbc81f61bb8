"""Codecs of sockets, of the files that sockets make, and of multiprocessing's connections."""

from __future__ import annotations

import socket
from multiprocessing import connection

from holdfast.carry import handles, refused  # noqa: F401 - it knows more of multiprocessing
from holdfast.codecs import register


def _make_socket(number, family, kind, protocol, timeout, closed=0):
    """`closed`: the handle of a socket that is closed."""
    if number is None:
        made = socket.socket(family, kind, protocol)
        made.close()
        handles.table.note_closed(made, closed)
        return made
    made = socket.socket(family, kind, protocol, handles.table.descriptor(number, None, 0))
    made.settimeout(timeout)
    return handles.table.adopt(made, number, None)


def _reduce_socket(value: socket.socket):
    number = None if value.fileno() < 0 else handles.handle_of(value)[0]
    about = int(value.family), int(value.type), value.proto, value.gettimeout()
    closed = () if number is not None else (handles.table.number_if_known(value),)
    return _make_socket, (number, *about, *closed)


def _take_socket(new: socket.socket):
    if new.fileno() < 0:
        return socket.socket.close
    return lambda here: here.settimeout(new.gettimeout())


def _make_socket_io(owner, mode):
    owner._io_refs += 1  # as socket.makefile does
    return socket.SocketIO(owner, mode)


def _reduce_socket_io(value):
    if value.closed:
        raise ValueError("the file of a socket that is closed")
    return _make_socket_io, (value._sock, value.mode.replace("b", ""))


def _make_connection(number, readable, writable):
    fd = handles.table.descriptor(number, None, 0)
    return handles.table.adopt(connection.Connection(fd, readable, writable), number, None)


def _reduce_connection(value: connection.Connection):
    if value.closed:
        raise ValueError("a connection that is closed")
    return _make_connection, (handles.handle_of(value)[0], value.readable, value.writable)


register(handles.Exact(socket.socket, _reduce_socket, _take_socket))
register(handles.Exact(socket.SocketIO, _reduce_socket_io, lambda new: lambda here: None))
register(handles.Exact(connection.Connection, _reduce_connection))
