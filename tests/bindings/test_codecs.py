"""The registry of codecs for other libraries' types: by name, by entry point, by base class."""

import subprocess
import sys

import pytest

from holdfast import codecs

# A library of views over malloc'ed blocks, which neither the garbage collector nor the
# buffer protocol knows, and its codec.
LIBRARY = """
import ctypes
from holdfast import codecs

class Block:
    __slots__ = ("raw", "size", "owner")
    def __init__(self, size):
        self.raw, self.size, self.owner = ctypes.create_string_buffer(size), size, None
    @property
    def address(self):
        return ctypes.addressof(self.raw)

class Grid:
    __slots__ = ("block", "start")
    made = 0
    def __init__(self, block, start=0):
        self.block, self.start = block, start
    def __getitem__(self, index):
        return self.block.raw[self.start + index]
    def __setitem__(self, index, value):
        self.block.raw[self.start + index] = value
    def view(self, start):
        copy = Block.__new__(Block)
        copy.raw, copy.size, copy.owner = self.block.raw, self.block.size, self.block
        copy.raw = (ctypes.c_char * copy.size).from_address(self.block.address)
        return type(self)(copy, self.start + start)

def rebuild(cls, memory, start):
    block = Block.__new__(Block)
    block.size, block.owner = memoryview(memory).nbytes, memory
    block.raw = (ctypes.c_char * block.size).from_buffer(memory)
    return cls(block, start)

class GridCodec(codecs.Codec):
    types = ("grids.Grid",)
    def reduce(self, value, pickler):
        if value.start == 13:
            raise ValueError("grids that start at 13 are cursed")
        block = value.block
        return rebuild, (type(value), pickler.memory(block.address, block.size, block), value.start)
    def shares(self, value):
        return (value.block.address,)

codec = GridCodec()
"""


@pytest.fixture
def grids(tmp_path, monkeypatch):
    """The library in a place that other processes find, registered by an entry point."""
    (tmp_path / "grids.py").write_text(LIBRARY)
    information = tmp_path / "grids-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: grids\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[holdfast.codecs]\ngrids = grids:codec\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    before = dict(codecs._by_name)
    codecs._loaded.discard("grids")
    monkeypatch.setattr(codecs, "_entry_points", None)
    yield __import__("grids")
    codecs._by_name.clear()
    codecs._by_name.update(before)
    codecs._by_type.clear()
    codecs._loaded.discard("grids")
    sys.modules.pop("grids", None)


def test_values_share_their_memory_where_they_arrive(main, grids):
    main.execute(
        "from grids import *\n"
        "whole = Grid(Block(1 << 20))\nwhole[100] = b'x'\npart = whole.view(90)\n"
        "nested = {'deep': [whole.view(50)]}\nother = Grid(Block(1 << 20))"
    )
    main.commit()
    answer = main.other(
        "names.bind(ns)\nns['part'][20] = b'y'\n"
        "answer(part=ns['part'][10].decode(), whole=ns['whole'][110].decode(),"
        " nested=ns['nested']['deep'][0][60].decode(), other=ns['other'][110].decode())"
    )
    assert answer == {"part": "x", "whole": "y", "nested": "y", "other": "\0"}


def test_memory_is_mapped_and_only_changed_pages_are_written(main, grids):
    main.execute("from grids import *\nx = Grid(Block(1 << 20))")
    main.commit()
    written = main.other(
        "report = names.bind(ns)\nns['x'][5000] = b'z'\nsaved = save(ns)\n"
        "answer(mapped=report['bytes_mapped'], copied=saved['bytes_copied'])"
    )
    assert written["mapped"] == 1 << 20
    assert written["copied"] < 3 * 4096


def test_a_subclass_of_the_notebook_is_carried_by_its_base_s_codec(main, grids):
    main.execute(
        "import grids\nclass Mine(grids.Grid):\n    def name(self): return 'mine'\n"
        "x = Mine(grids.Block(1 << 16))\nx[7] = b'q'"
    )
    main.ns["Mine"].__module__ = "__main__"
    main.commit()
    source = "names.bind(ns)\nanswer(name=ns['x'].name(), item=ns['x'][7].decode())"
    assert main.other(source) == {"name": "mine", "item": "q"}


def test_a_codec_that_refuses_declines_that_value_alone(main, grids):
    main.execute("from grids import *\ngood = Grid(Block(64))\nbad = Grid(Block(64), 13)")
    report = main.commit()
    assert "good" in report["saved"] and set(report["unserializable"]) == {"bad"}
    assert "cursed" in report["unserializable"]["bad"]


def test_an_entry_point_that_fails_is_reported_and_costs_nothing_else(main, grids, capfd):
    grids.codec = None
    main.execute("import grids\nx = grids.Grid(grids.Block(64))\nfine = [1]")
    main.commit()
    assert "grids:codec" in capfd.readouterr().err
    assert main.other("names.bind(ns)\nanswer(fine=ns['fine'])") == {"fine": [1]}


def test_what_is_no_codec_is_refused():
    with pytest.raises(TypeError):
        codecs.register(object())
    with pytest.raises(TypeError):
        codecs.register(codecs.Codec())


def test_classes_of_the_notebook_are_not_kept_alive():
    cls = type("Gone", (), {"__module__": "__main__"})
    assert codecs.find(cls) is None
    assert cls not in codecs._by_type


def test_a_fork_server_s_workers_find_everything_loaded():
    source = (
        "import sys, numpy\nfrom holdfast import codecs\ncodecs.preload()\n"
        "wanted = {'holdfast.libraries.numpy.arrays', 'holdfast.carry.pickling'}\n"
        "loaded = wanted <= sys.modules.keys()\n"
        "print(loaded, codecs._entry_points is not None, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True", "False"], done.stderr


# ---- codecs in C

HALVES = """
import ctypes
from holdfast import _store

class Codec(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("number", ctypes.c_uint32),
                ("name", ctypes.c_char_p), ("order", ctypes.c_int), ("context", ctypes.c_void_p),
                ("accepts", ctypes.c_void_p), ("encode", ctypes.c_void_p),
                ("decode", ctypes.c_void_p), ("describe", ctypes.c_void_p)]

def table(number, name, accepts=1, size=None):
    made = Codec(size or ctypes.sizeof(Codec), number, name, 500)
    made.accepts = made.encode = made.decode = accepts
    return made

kept = []

def capsule(codec, name=b"holdfast.codec"):
    kept.append((codec, name))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(codec), name, None)
"""


def test_tables_of_c_that_are_refused():
    """Nothing of these is called; a good one is examples/codec_c."""
    tools = {}
    exec(HALVES, tools)
    table, capsule, store = tools["table"], tools["capsule"], tools["_store"]
    for wrong in (object(), capsule(table(300, b"x"), b"another.name")):
        with pytest.raises(TypeError, match="holdfast.codec"):
            store.register_codec(wrong)
    with pytest.raises(ValueError, match="below 256"):
        store.register_codec(capsule(table(18, b"x")))
    for made in (table(300, b""), table(70000, b"x"), table(300, b"x", accepts=None)):
        with pytest.raises(store.Error):
            store.register_codec(capsule(made))
    with pytest.raises(store.Error, match="sizeof"):
        store.register_codec(capsule(table(300, b"x", size=8)))
    with pytest.raises(store.Error, match="taken"):
        store.register_codec(capsule(table(300, b"pickle")))


def test_an_encoding_of_an_unknown_codec_asks_the_packages_once(grids, monkeypatch):
    from holdfast import _store

    asked = []
    monkeypatch.setattr(codecs, "load_all", lambda: asked.append(1))
    with pytest.raises(_store.CorruptError, match="codec 400 is not known"):
        _store._decode(400, b"", b"", [])
    with pytest.raises(_store.CorruptError, match="codec 200 is not known"):
        _store._decode(200, b"", b"", [])
    assert asked == [1]
