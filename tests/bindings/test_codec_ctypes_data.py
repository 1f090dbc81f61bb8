"""ctypes: classes with fields, memory that is shared, and pointers to what is carried."""

import pytest
from store_process import hand_over

pytest.importorskip("numpy")

# A fork is faster than a start with it.
LIBRARIES = ("numpy",)
CLASSES = """
import ctypes, numpy as np
class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double)]
    unit = "m"
    def length(self): return (self.x ** 2 + self.y ** 2) ** 0.5
class Bits(ctypes.BigEndianStructure):
    _pack_ = 1
    _fields_ = [("low", ctypes.c_uint16, 3), ("high", ctypes.c_uint16, 13), ("rest", ctypes.c_uint32)]
class Either(ctypes.Union):
    _fields_ = [("i", ctypes.c_uint32), ("f", ctypes.c_float)]
class Named(ctypes.Structure):
    _anonymous_ = ("either",)
    _fields_ = [("either", Either), ("points", Point * 3), ("name", ctypes.c_char * 8)]
class Later(Point):
    _fields_ = [("z", ctypes.c_int8)]
class Node(ctypes.Structure): pass
Node._fields_ = [("value", ctypes.c_int), ("next", ctypes.POINTER(Node))]
"""


def test_classes_and_their_values(main):
    main.execute(
        CLASSES + "point = Point(3, 4.0); point.note = [1]; bits = Bits(5, 6, 7)\n"
        "named = Named(name=b'abc'); named.f = 1.0; named.points[2].x = 9; later = Later(1, 2, 3)\n"
        "same = [point]; number = ctypes.c_double(2.5); numbers = (ctypes.c_int * 4)(1, 2, 3, 4)"
    )
    assert main.commit()["unserializable"] == {}
    check = (
        "assert (point.x, point.y, point.length(), point.unit) == (3, 4.0, 5.0, 'm')\n"
        "assert point.note[0] == 1 and same[0] is point and type(point) is Point\n"
        "assert (bits.low, bits.high, bits.rest) == (5, 6, 7) and ctypes.sizeof(Bits) == 6\n"
        "assert bytes(bits) == bytes(Bits(5, 6, 7)) and Named.either.offset == 0\n"
        "assert named.i == 0x3f800000 and named.points[2].x == 9 and named.name == b'abc'\n"
        "assert (later.x, later.z) == (1, 3) and isinstance(later, Point)\n"
        "assert Node._fields_[1][1] is ctypes.POINTER(Node) and Node(5).value == 5\n"
        "assert number.value == 2.5 and list(numbers) == [1, 2, 3, 4]\n"
    )
    classes = [main.ns[name] for name in ("Point", "Named", "Node")]
    assert hand_over(main, check)["saved"] == []
    for turn in range(1, 4):
        hand_over(main, check + "point.x = 3; point.note.append(1); Point.extra = point.note")
        main.execute(check)
        assert len(main.ns["point"].note) == 1 + turn
        assert main.ns["Point"].extra is main.ns["point"].note
    assert classes == [main.ns[name] for name in ("Point", "Named", "Node")]
    hand_over(main, "numbers[1] = 7; named.points[0].y = 1.5; bits.high = 8")
    assert main.ns["numbers"][1] == 7 and main.ns["named"].points[0].y == 1.5
    assert main.ns["bits"].high == 8


SHARED = {
    "part of an array": ("a = (Point * 3000)()\nb = a[7]", "b.x = 5", "a[7].x", 5),
    "part of a part": ("a = Named()\nb = a.points\nc = b[1]", "c.x = 6", "a.points[1].x", 6),
    "a NumPy array over it": (
        "a = (ctypes.c_double * 4000)()\nb = np.ctypeslib.as_array(a)[2:]",
        "b[0] = 7",
        "a[2]",
        7,
    ),
    "over a NumPy array": (
        "b = np.zeros(4000)\na = (ctypes.c_double * 4000).from_buffer(b)",
        "b[3] = 8",
        "a[3]",
        8,
    ),
    "over a part of a NumPy array": (
        "b = np.zeros(4000)\na = (ctypes.c_double * 10).from_buffer(b, 80)",
        "a[0] = 9",
        "b[10]",
        9,
    ),
    "over a bytearray": (
        "b = bytearray(16)\na = Point.from_buffer(b)",
        "b[0] = 3",
        "a.x",
        3,
    ),
    "a pointer": ("a = ctypes.c_int(1)\np = ctypes.pointer(a)", "p[0] = 4", "a.value", 4),
    "a pointer to a structure": (
        "a = Point(1)\np = ctypes.pointer(a)\nq = p",
        "assert q is p\np.contents.x = 4",
        "a.x",
        4,
    ),
    "an array's pointer": (
        "a = np.arange(5000.0)\np = a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))",
        "p[2] = 11",
        "a[2]",
        11,
    ),
}


@pytest.mark.parametrize("kind", SHARED)
def test_memory_that_is_shared_is_shared_again(main, kind):
    make, change, look, value = SHARED[kind]
    main.execute(CLASSES + make)
    assert main.commit()["unserializable"] == {}
    for turn in range(3):
        changed = change.rpartition("= ")[0] + f"= {value + turn}"
        hand_over(main, changed + f"\nassert {look} == {value + turn}")
        assert eval(look, main.ns) == value + turn
        main.execute(changed.replace(str(value + turn), str(value + turn + 20)))
        assert eval(look, main.ns) == value + turn + 20
        assert main.commit()["unserializable"] == {}


def test_large_memory_is_mapped(main):
    main.execute(CLASSES + "a = (Point * 100_000)()\na[99_999].x = 3")
    main.commit()
    answer = hand_over(main, "assert a[99_999].x == 3\na[5].x = 1")
    assert answer["mapped"] >= 1_600_000 and answer["copied"] < 20_000
    assert main.ns["a"][5].x == 1 and main.ns["a"][99_999].x == 3


def test_texts_and_null(main):
    main.execute(
        "import ctypes\ntext = ctypes.c_char_p(b'abc')\nwide = ctypes.c_wchar_p('d\\u00e9')\n"
        "null = ctypes.POINTER(ctypes.c_int)()\nnone = ctypes.c_char_p(None)"
    )
    assert main.commit()["unserializable"] == {}
    for _ in range(2):
        hand_over(main, "text = [text, null][0]\nassert text.value == b'abc' and not null")
        ns = main.ns
        assert (ns["text"].value, ns["wide"].value, ns["none"].value) == (b"abc", "d\u00e9", None)


def test_classes_that_ctypes_makes_keep_their_names(main):
    main.execute("import ctypes\nrow = (ctypes.c_int8 * 7)()\np = ctypes.POINTER(ctypes.c_int8)()")
    assert main.commit()["unserializable"] == {}
    names = [repr(type(main.ns[name])) for name in ("row", "p")]
    hand_over(main, f"assert [repr(type(row)), repr(type(p))] == {names}")


def test_addresses_of_what_is_unknown_are_declined(main):
    main.execute(
        CLASSES + "a = np.arange(3.0); i = (ctypes.c_int * 3)(); p = ctypes.pointer(i)\n"
        "moved = ctypes.cast(a.ctypes.data + 8, ctypes.POINTER(ctypes.c_double))\n"
        "node = Node(1, ctypes.pointer(Node(2)))\naddress = ctypes.c_void_p(a.ctypes.data)\n"
        "reference = ctypes.byref(i)\nfunction = ctypes.CDLL(None).strlen"
    )
    unserializable = main.commit()["unserializable"]
    assert set(unserializable) == {"moved", "node", "address", "reference", "function"}
    assert "containing pointers" in unserializable["moved"]


def test_no_code_of_a_class_runs(main):
    main.execute(
        "import ctypes\nruns = []\n"
        "class Made:\n"
        "    def __new__(cls, *args): runs.append('new'); return super().__new__(cls, *args)\n"
        "    def __init__(self, *args): runs.append('init'); super().__init__(*args)\n"
        "class Counted(Made, ctypes.Structure): _fields_ = [('x', ctypes.c_int)]\n"
        "class Number(Made, ctypes.c_int): pass\n"
        "class Text(Made, ctypes.c_char_p): pass\n"
        "class Place(Made, ctypes.POINTER(ctypes.c_int)): _type_ = ctypes.c_int\n"
        "class Odd(ctypes.Structure):\n    _fields_ = [('x', ctypes.c_int)]\n"
        "    def __init__(self, x, *, needed): super().__init__(x)\n"
        "s, n, t, o = Counted(1), Number(2), Text(b'three'), Odd(5, needed=True)\n"
        "four = ctypes.c_int(4); p = Place(four); null = Place(); runs.clear()"
    )
    assert main.commit()["unserializable"] == {}
    check = (
        "assert runs == [], runs\nassert (s.x, n.value, t.value, p.contents.value, o.x)"
        " == (1, 2, b'three', 4, 5)\nassert not null and type(p) is Place"
    )
    main.execute(check)
    assert hand_over(main, check + "\np.contents.value = 6; assert four.value == 6")["saved"]
    main.execute("assert runs == [] and four.value == 6")
