"""A library that knows nothing of Holdfast: boards of cells, a byte each."""

import mmap


edge = "closed"  # or "open": what lies beyond the last row


def set_edge(kind):
    global edge
    edge = kind


class Board:
    """`height` rows of `width` cells in memory that boards may share."""

    def __init__(self, height, width, memory=None):
        self.height, self.width = height, width
        self.memory = mmap.mmap(-1, height * width) if memory is None else memory

    def __getitem__(self, place):
        row, column = place
        return memoryview(self.memory)[row * self.width + column]

    def __setitem__(self, place, value):
        row, column = place
        memoryview(self.memory)[row * self.width + column] = value

    def reshaped(self, height, width):
        """The same cells in other rows."""
        return Board(height, width, self.memory)
