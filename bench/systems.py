"""The ways to carry a namespace that bench/handover compares, a class each.

`prepare_save` and `prepare_restore` do what a process does once, before the clock runs:
imports, servers, connections. `save(names, place)` gives the bytes that were copied, as far
as they are known; `restore(place)` the names and the bytes copied. `place` is a path in
/dev/shm. A way that can't be had here (its package is missing) raises ImportError when it
prepares. `works` names which values a
way carries, where not all; `read_only` ones give arrays that can't be
written, so that only reading is asked of them.

Not here: Ray, whose objects belong to the program that put them and can't be had by another
one since version 2.56; kishu, which brings a notebook's state back into its own process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import time
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path


class Way:
    """What most ways share: nothing to prepare, nothing to end."""

    works = ()  # beginnings of the names of those that it carries; (): all
    read_only = False
    make = None  # makes the values; set before prepare_restore

    def prepare_save(self, place):
        pass

    def prepare_restore(self, place):
        pass

    def warm(self, names):
        pass

    def finish(self):
        pass


class Holdfast(Way):
    """Names in the arena; arrays made before the allocator was enabled."""

    born_in_arena = False

    def prepare_save(self, place):
        from holdfast import _store, codecs

        codecs.preload()  # as in a worker's fork server
        codecs.rehearse()
        self.session = _store.Session.create(label="bench/handover")
        Path(place).write_text(self.session.name)
        if self.born_in_arena:
            import numpy  # noqa: F401
            from holdfast.worker import arrays

            arrays.be_born_in(self.session)
        self.names = _store.Names(self.session)

    def save(self, names, place):
        report = self.names.save(names)
        generation = self.session.publish(report["prepared"])
        self.names.published(generation)
        return report["bytes_copied"]

    def prepare_restore(self, place):
        from holdfast import _store, codecs

        codecs.preload()
        codecs.rehearse()
        self.session = _store.Session.open(Path(place).read_text())
        self.names = _store.Names(self.session)

    def restore(self, place):
        names = {}
        self.names.bind(names)
        return names, 0

    def finish(self):
        self.session.destroy()


class HoldfastArena(Holdfast):
    """The same, arrays born in the arena, as in a notebook of Holdfast's kernel."""

    born_in_arena = True


class HoldfastRecycled(Holdfast):
    """Born elsewhere, saved where a value of the same size lay that is gone by now."""

    works = ("array 8 ", "array 64 ", "array 256 ", "array 1 ", "torch")

    def warm(self, names):
        # The last commit frees what the one before it retired.
        for values in ({"before": names["x"] + 1}, {}, {"after": 1}):
            self.names.published(self.session.publish(self.names.save(values)["prepared"]))


class HoldfastAgain(HoldfastArena):
    """Both processes have saved and bound a thousand small values before, elsewhere.

    What is left of the first time's cost is work; the difference is code and memory that
    the process meets for the first time.
    """

    def exercise(self):
        from holdfast import _store

        session = _store.Session.create(label="bench/handover")
        names = _store.Names(session)
        kinds = [int, float, str, lambda i: [i, i + 1], lambda i: {"i": i}, lambda i: (i, str(i))]
        report = names.save({f"w{i}": kinds[i % len(kinds)](i) for i in range(1000)})
        names.published(session.publish(report["prepared"]))
        _store.Names(session).bind({})
        session.destroy()

    def prepare_save(self, place):
        super().prepare_save(place)
        self.exercise()

    def prepare_restore(self, place):
        super().prepare_restore(place)
        self.exercise()


class Stream(Way):
    """A module with dump and load, to a file in /dev/shm."""

    def __init__(self, name):
        self.name = name

    def prepare_save(self, place):
        self.module = __import__(self.name)

    prepare_restore = prepare_save

    def options(self):
        return {}

    def save(self, names, place):
        with open(place, "wb") as file:
            self.module.dump(names, file, **self.options())
            return file.tell()

    def restore(self, place):
        with open(place, "rb") as file:
            names = self.module.load(file)
            return names, file.tell()


class Pickle5(Stream):
    def __init__(self):
        super().__init__("pickle")

    def options(self):
        return {"protocol": 5}


class Pickle5Shared(Way):
    """Protocol 5, its out-of-band buffers in one POSIX shared-memory block."""

    def prepare_save(self, place):
        import numpy  # noqa: F401

    prepare_restore = prepare_save

    def save(self, names, place):
        buffers = []
        head = pickle.dumps(names, protocol=5, buffer_callback=buffers.append)
        raws = [buffer.raw() for buffer in buffers]
        sizes = [raw.nbytes for raw in raws]
        total = sum(-(-size // 64) * 64 for size in sizes)
        self.block = shared_memory.SharedMemory(create=True, size=max(total, 1))
        offset = 0
        for raw in raws:
            self.block.buf[offset : offset + raw.nbytes] = raw.cast("B")
            offset += -(-raw.nbytes // 64) * 64
        with open(place, "wb") as file:
            pickle.dump((head, self.block.name, sizes), file)
        return len(head) + sum(sizes)

    def restore(self, place):
        with open(place, "rb") as file:
            head, name, sizes = pickle.load(file)
        self.block = shared_memory.SharedMemory(name=name)
        resource_tracker.unregister(self.block._name, "shared_memory")
        views, offset = [], 0
        for size in sizes:
            views.append(self.block.buf[offset : offset + size])
            offset += -(-size // 64) * 64
        return pickle.loads(head, buffers=views), len(head)

    def finish(self):
        self.block.unlink()


class Joblib(Way):
    """joblib.dump, and load with mmap_mode="c" (copy-on-write)."""

    def prepare_save(self, place):
        import joblib

        self.joblib = joblib

    prepare_restore = prepare_save

    def save(self, names, place):
        self.joblib.dump(names, place)
        return os.path.getsize(place)

    def restore(self, place):
        names = self.joblib.load(place, mmap_mode="c")
        return names, 0


class NpyMapped(Way):
    """numpy.save, and load with mmap_mode="c"."""

    works = ("array",)

    def prepare_save(self, place):
        import numpy

        self.numpy = numpy

    prepare_restore = prepare_save

    def save(self, names, place):
        with open(place, "wb") as file:
            self.numpy.save(file, names["x"])
            return file.tell()

    def restore(self, place):
        return {"x": self.numpy.load(place, mmap_mode="c")}, 0


class ArrowIpc(Way):
    """A record batch in an Arrow IPC file, mapped."""

    works = ("array",)
    read_only = True

    def prepare_save(self, place):
        import pyarrow

        self.arrow = pyarrow

    prepare_restore = prepare_save

    def save(self, names, place):
        batch = self.arrow.record_batch([self.arrow.array(names["x"])], names=["x"])
        with self.arrow.OSFile(place, "wb") as file:
            with self.arrow.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
            return file.tell()

    def restore(self, place):
        reader = self.arrow.ipc.open_file(self.arrow.memory_map(place))
        return {"x": reader.get_batch(0).column(0).to_numpy()}, 0


class Lmdb(Way):
    """A key of an LMDB environment for the array's bytes, read without a copy."""

    works = ("array",)
    read_only = True

    def _open(self, place):
        import lmdb
        import numpy

        self.numpy = numpy
        self.environment = lmdb.open(
            place, subdir=False, map_size=16 << 30, sync=False, writemap=True
        )

    def prepare_save(self, place):
        self._open(place)

    def prepare_restore(self, place):
        self._open(place)

    def save(self, names, place):
        with self.environment.begin(write=True) as transaction:
            transaction.put(b"x", memoryview(names["x"]).cast("B"))
        return names["x"].nbytes

    def restore(self, place):
        self.transaction = self.environment.begin(buffers=True)
        return {"x": self.numpy.frombuffer(self.transaction.get(b"x"))}, 0


class SharedArray(Way):
    """The package SharedArray: one array that all write, so that a failing cell spoils it."""

    works = ("array",)

    def prepare_save(self, place):
        import SharedArray as shared_array

        self.package = shared_array
        self.name = "shm://" + "-".join(Path(place).parts[-2:])

    prepare_restore = prepare_save

    def save(self, names, place):
        array = self.package.create(self.name, names["x"].shape, names["x"].dtype)
        array[:] = names["x"]
        return array.nbytes

    def restore(self, place):
        return {"x": self.package.attach(self.name)}, 0

    def finish(self):
        self.package.delete(self.name)


class Vineyard(Way):
    """An object of vineyard's store, by its server."""

    read_only = True

    def prepare_save(self, place):
        import vineyard

        self.server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "vineyard",
                "--socket",
                place + ".sock",
                "--size",
                "8Gi",
                "--meta",
                "local",
                "--reserve_memory",
                "false",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            if Path(place + ".sock").exists():
                break
            time.sleep(0.05)
        self.client = vineyard.connect(place + ".sock")

    def save(self, names, place):
        Path(place).write_text(repr(self.client.put(names)))
        return None

    def prepare_restore(self, place):
        import vineyard

        self.package = vineyard
        self.client = vineyard.connect(place + ".sock")

    def restore(self, place):
        return self.client.get(self.package.ObjectID(Path(place).read_text().strip("'"))), 0

    def finish(self):
        self.server.terminate()
        self.server.wait()


class Memcpy(Way):
    """Limit: one memcpy into memory that is mapped and present; nothing to restore."""

    works = ("array",)

    def warm(self, names):
        self.size = names["x"].nbytes
        self.target = mmap.mmap(-1, self.size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.target))
        ctypes.memset(self.address, 1, self.size)

    def save(self, names, place):
        ctypes.memmove(self.address, names["x"].ctypes.data, self.size)
        return self.size

    def restore(self, place):
        return None, 0


class FreshWrite(Way):
    """Limit: the bytes by one pwrite into a new object of /dev/shm; nothing to restore."""

    works = ("array", "torch")

    def warm(self, names):
        self.bytes = memoryview(getattr(names["x"], "numpy", lambda: names["x"])()).cast("B")

    def save(self, names, place):
        file, done = os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC), 0
        while done < len(self.bytes):
            done += os.pwrite(file, self.bytes[done:], done)
        return done

    def restore(self, place):
        return None, 0


class Floor(Way):
    """Limit: bare loops over the C API (plain_floor.c), and a file in /dev/shm."""

    works = ("dict", "list")

    def prepare_save(self, place):
        import plain_codec

        self.directory = tempfile.TemporaryDirectory()
        self.floor = plain_codec.floor_module(self.directory.name)
        if self.floor is None:
            raise ImportError("no compiler")

    prepare_restore = prepare_save

    def save(self, names, place):
        count = len(names["x"])
        encoded = self.floor.dumps(names["x"], 64 * count)
        with open(place, "wb", buffering=0) as file:
            file.write(struct.pack("=q", -count if isinstance(names["x"], dict) else count))
            return file.write(encoded)

    def restore(self, place):
        with open(place, "rb", buffering=0) as file:
            (count,) = struct.unpack("=q", file.read(8))
            encoded = file.read()
        return {"x": self.floor.loads(encoded, count)}, len(encoded)


class MapTouch(Way):
    """Limit: data already in /dev/shm; map it copy-on-write and touch one page."""

    works = ("array",)

    def prepare_restore(self, place):
        import numpy

        self.numpy = numpy

    def save(self, names, place):
        names["x"].tofile(place)
        return None

    def restore(self, place):
        names = {"x": self.numpy.memmap(place, dtype="f8", mode="c")}
        return names, 0


class OwnTouch(Way):
    """Limit: the values were made in the restoring process; the touch alone is timed.

    What a library does at its first use in a process is in every restore.
    """

    def save(self, names, place):
        return None

    def prepare_restore(self, place):
        self.names = self.make()

    def restore(self, place):
        return self.names, 0


SYSTEMS = {
    "holdfast, born in the arena": HoldfastArena,
    "holdfast, born elsewhere": Holdfast,
    "holdfast, elsewhere, recycled": HoldfastRecycled,
    "holdfast, not its first": HoldfastAgain,
    "dill": lambda: Stream("dill"),
    "cloudpickle": lambda: Stream("cloudpickle"),
    "pickle 5": Pickle5,
    "pickle 5, shared memory": Pickle5Shared,
    "joblib, mmap": Joblib,
    "npy, mmap": NpyMapped,
    "Arrow IPC": ArrowIpc,
    "LMDB": Lmdb,
    "SharedArray": SharedArray,
    "vineyard": Vineyard,
    "limit: memcpy": Memcpy,
    "limit: pwrite, fresh": FreshWrite,
    "limit: bare C loops": Floor,
    "limit: map and touch": MapTouch,
    "limit: touch, born there": OwnTouch,
}
