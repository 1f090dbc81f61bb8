"""Handles: what stands in an encoding for a descriptor.

A descriptor is a number that means something in one process only. So the encoding of a file holds a
*handle*: a random number that stands for the open file description. For a regular file it holds the path, too.
The process that decodes it gets the open file in one of these ways:

* it has the file already: the main worker, if it gave the file to a cell;
* it was sent the descriptor by the cell that opened the file;
* it asks for the descriptor through `table.fetch`, which a worker of a kernel sets;
* it opens the regular file anew, if its path still leads to the same inode.

A pipe or a socket has no path: outside of a kernel it is unserializable.

No third process keeps the descriptors of a commit. While any process holds a copy, the other end of a
pipe sees no end of file, and `close()` doesn't end a connection. So the main worker, which has them
anyway, gives a cell those that it decodes, when it decodes them.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import stat
import typing as t
import weakref

from holdfast.codecs import Codec

# Each file takes a descriptor in this process, and one in the frontend while a cell's are handed
# over.
HANDLES_MAX = min(256, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


class Place(t.NamedTuple):
    """The path of a regular file, and its identity."""

    path: str
    device: int
    inode: int


class Table:
    """This process's handles."""

    def __init__(self) -> None:
        # By the handle: the object that has the descriptor, and what is known of it.
        self._objects: weakref.WeakValueDictionary[int, t.Any] = weakref.WeakValueDictionary()
        self._known: weakref.WeakKeyDictionary[t.Any, tuple[int, Place | None]] = (
            weakref.WeakKeyDictionary()
        )
        self._arrived: dict[int, int] = {}  # handle -> descriptor, until it is decoded
        self._given: dict[int, tuple[int | None, bool]] = {}  # offset, blocking
        self._made: set[int] = set()  # handles that began in this process
        # Called when another process has what this one was given or made.
        self.handed_over: list[t.Callable[[], object]] = []
        # A worker of a kernel sets it: it asks for a descriptor, and returns that or None.
        self.fetch: t.Callable[[int], int | None] | None = None

    # ---- encoding

    def number_of(self, owner: t.Any) -> tuple[int, Place | None]:
        """The handle of an object's descriptor, and its path."""
        known = self._known.get(owner)
        if known is not None:
            self._objects[known[0]] = owner  # which another one may have been since
        else:
            if len(self._objects) >= HANDLES_MAX and self._count_open() >= HANDLES_MAX:
                raise ValueError(
                    f"more than {HANDLES_MAX} files and connections are open in variables"
                )
            number = random.SystemRandom().getrandbits(62) + 1
            known = self._know(owner, number, _find_place(owner))
            self._made.add(number)
        return known

    def _count_open(self) -> int:
        return sum(not is_closed(owner) for owner in list(self._objects.values()))

    def _know(self, owner: t.Any, number: int, place: Place | None) -> tuple[int, Place | None]:
        self._objects[number] = owner
        self._known[owner] = number, place
        return number, place

    def number_if_known(self, owner: t.Any) -> int:
        """The handle that an object has or had, if it is closed by now; 0 if it has none."""
        return self._known.get(owner, (0, None))[0]

    def note_closed(self, owner: t.Any, number: int) -> None:
        """Note that the handle was this object's, which is closed."""
        if number:
            self._known[owner] = number, None

    def pass_on(self, new: t.Any, here: t.Any) -> None:
        """Note that `here` is used in the place of another object with the same handle."""
        if not is_closed(here):
            self._know(here, *self._known[new])

    # ---- decoding

    def descriptor(self, number: int, place: Place | None, flags: int) -> int:
        """A descriptor for the handle, which the caller owns."""
        from holdfast.carry import context

        if context.is_comparing():
            raise OSError("it was decoded already, and a second file would share its offset")
        fd = self._arrived.pop(number, None)
        if fd is None:
            fd = self._duplicate(number)
        if fd is None and number and self.fetch is not None:
            fd = self.fetch(number)
        if fd is None and place is not None:
            fd = reopen(place, flags)
        if fd is None:
            raise OSError("the process that had it open has ended, and it can't be opened again")
        return fd

    def _duplicate(self, number: int) -> int | None:
        owner = self._objects.get(number)
        return None if owner is None or is_closed(owner) else os.dup(owner.fileno())

    def adopt(self, owner: t.Any, number: int, place: Place | None) -> t.Any:
        """Note that `owner` has the handle's descriptor in this process from now on."""
        if number:
            self._know(owner, number, place)
        return owner

    def begin_anew(self) -> None:
        """In a fork: forget what was made here. It was made by the parent, which has it."""
        self._made.clear()
        self._given.clear()

    # ---- between the processes of a kernel

    def arrive(self, number: int, fd: int) -> None:
        """A descriptor came, and a value with this handle will be decoded."""
        old = self._arrived.pop(number, None)
        if old is not None:
            os.close(old)
        self._arrived[number] = fd

    def peek(self, number: int) -> int | None:
        """The descriptor that came. It still belongs to the table."""
        return self._arrived.get(number)

    def forget_arrived(self) -> None:
        """Close the descriptors that came, but belong to no value that was decoded."""
        while self._arrived:
            os.close(self._arrived.popitem()[1])

    def give(self, number: int) -> int | None:
        """The descriptor itself, to be sent to another process now. It still belongs to this
        one."""
        owner = self._objects.get(number)
        if owner is None or is_closed(owner):
            return None
        fd = owner.fileno()
        self._given[number] = offset_of(fd), os.get_blocking(fd)
        return fd

    def lend_all(self) -> None:
        """Before a fork: note that the fork has all of them."""
        for number in list(self._objects):
            self.give(number)

    def taken_back(self, *, adopted: bool) -> None:
        """The process that we gave descriptors to has ended its work. If nothing of it was adopted,
        set each file's offset back to where our own objects believe it to be."""
        given, self._given = self._given, {}
        for number, (offset, blocking) in given.items():
            owner = self._objects.get(number)
            if adopted or owner is None or is_closed(owner):
                continue
            fd = owner.fileno()
            with contextlib.suppress(OSError):
                if offset is not None:
                    os.lseek(fd, offset, os.SEEK_SET)
                os.set_blocking(fd, blocking)

    def hand_over(self) -> dict[int, int]:
        """Before the process ends: the descriptors that it made, for the process that goes on."""
        for notify in self.handed_over:
            notify()
        return self._made_open()

    def _made_open(self) -> dict[int, int]:
        """The handles that began here and are open, with their descriptors, which stay ours."""
        live = {number: self._objects.get(number) for number in sorted(self._made)}
        return {
            number: owner.fileno()
            for number, owner in live.items()
            if owner is not None and not is_closed(owner)
        }


table = Table()


def handle_of(owner: t.Any) -> tuple[int, Place | None]:
    """The stand-in for a descriptor in an encoding. Raises an exception if there can be none."""
    from holdfast.carry import context

    stored = context.in_store()  # else it goes to a stream, which no process of the kernel reads
    number, place = table.number_of(owner)
    if place is None and not (stored and table.fetch is not None):
        raise ValueError(
            "its descriptor crosses between the processes of a kernel only; "
            "elsewhere a regular file that still has its name is opened anew"
        )
    return number if stored else 0, place


LAYERS = "buffer", "raw", "_sock"


def owner_of(file: t.Any) -> t.Any:
    """The object that has the descriptor of a file: itself, or what is below its buffers."""
    for layer in LAYERS:
        with contextlib.suppress(ValueError):  # it was detached
            file = getattr(file, layer, file)
    return file


def place_of(owner: t.Any) -> Place | None:
    """The path and identity of the regular file that `owner` has open."""
    return table.number_of(owner)[1]


def is_closed(owner: t.Any) -> bool:
    closed = getattr(owner, "closed", None)
    return owner.fileno() < 0 if closed is None else bool(closed)


def offset_of(fd: int) -> int | None:
    try:
        return os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:
        return None


def _find_place(owner: t.Any) -> Place | None:
    fd = owner.fileno()
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        return None
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # not on Linux
        name = getattr(owner, "name", None)
        path = os.path.abspath(os.fsdecode(name)) if isinstance(name, (str, bytes)) else ""
    try:
        found = os.stat(path)
    except OSError:
        return None
    same = (found.st_dev, found.st_ino) == (about.st_dev, about.st_ino)
    return Place(path, about.st_dev, about.st_ino) if same else None


def reopen(place: Place, flags: int) -> int:
    fd = os.open(place.path, flags | os.O_CLOEXEC)
    about = os.fstat(fd)
    if (about.st_dev, about.st_ino) != (place.device, place.inode):
        os.close(fd)
        raise OSError(f"{place.path} is another file by now")
    return fd


class Exact(Codec):
    """A codec for one type, and none of its subclasses: these may hold more than we know."""

    def __init__(
        self,
        cls: type,
        reduce: t.Callable[[t.Any], t.Any],
        take: t.Callable[[t.Any], t.Callable[[t.Any], object]] | None = None,
    ):
        self.types = (f"{cls.__module__}.{cls.__qualname__}",)
        self._cls = cls
        self._reduce = reduce
        # Reads the state of an open file that came; what it returns gives that to the object that has the
        # same descriptor here.
        self.take = take

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        if type(value) is not self._cls:
            return NotImplemented
        return self._reduce(value)
