"""How a Board crosses between processes: its memory is mapped, not copied."""

import ctypes

import boards
from holdfast.codecs import Codec


def _address(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class BoardCodec(Codec):
    types = ("boards.Board",)

    def reduce(self, board, pickler):
        """A call that makes it again; what `memory` gives arrives as a buffer."""
        address, size = _address(board.memory), memoryview(board.memory).nbytes
        memory = pickler.memory(address, size, board.memory)
        return boards.Board, (board.height, board.width, memory)

    def shares(self, board):
        """Boards of one memory are carried together, and share it afterwards."""
        return (_address(board.memory),)


codec = BoardCodec()
