"""Types, members and wrappers that a call makes and not a statement, from every kind of cell.

Each row is made in a plain cell and looked at in an isolated one and a plain one after it, and the
other way round. Nothing may be lost without a word: what can't be carried is said so.
"""

import sys

import pytest

START = (
    "import abc, array, collections, contextvars, copy, dataclasses, datetime, decimal, enum, fractions\n"
    "import functools, inspect, itertools, operator, re, string, sys, types, typing, weakref\n"
    "made_planets = []\nfrom typing import *\nfrom typing import Annotated, ParamSpec, TypeVarTuple, Unpack\n"
)

# What makes a name or several, and what is true of them in whatever process.
ROWS = {
    "NewType": (
        "UserId = NewType('UserId', int)\ndef user(u: UserId) -> UserId: return UserId(u)",
        "UserId(3) == 3",
        "UserId.__supertype__ is int",
        "UserId.__module__ == '__main__' and UserId.__name__ == 'UserId'",
        "user.__annotations__['u'] is UserId and user(4) == 4",
        "get_type_hints(user) == {'u': UserId, 'return': UserId}",
    ),
    "NewType of a NewType": (
        "Outer = NewType('Outer', int)\nInner = NewType('Inner', Outer)\nids = [Inner(1)]",
        "Inner.__supertype__ is Outer",
        "ids == [1]",
    ),
    "NewType in a generic": (
        "Key = NewType('Key', str)\nKeys = dict[Key, list[Key]]\nOpt = Optional[Key]",
        "Keys.__args__[0] is Key and Opt.__args__[0] is Key",
    ),
    "TypeVar": (
        "T = TypeVar('T', bound=int)\nS = TypeVar('S', str, bytes, covariant=False)\n"
        "def first(items: list[T]) -> T: return items[0]",
        "T.__bound__ is int and S.__constraints__ == (str, bytes)",
        "first.__annotations__['return'] is T",
        "first.__annotations__['items'].__args__[0] is T and first([5]) == 5",
    ),
    "ParamSpec": (
        "P = ParamSpec('P')\nR = TypeVar('R')\n"
        "def wrap(f: Callable[P, R]) -> Callable[P, R]:\n"
        "    def inner(*args: P.args, **kwargs: P.kwargs): return f(*args, **kwargs)\n"
        "    return inner\nwrapped = wrap(len)",
        "P.__name__ == 'P'",
        "wrap.__annotations__['f'].__args__[0] is P",
        "wrapped([1, 2]) == 2",
        "wrapped.__annotations__['args'].__origin__ is P",
    ),
    "TypeVarTuple": (
        "Ts = TypeVarTuple('Ts')\ndef many(x: tuple[Unpack[Ts]]): return x",
        "Ts.__name__ == 'Ts'",
        "next(iter(many.__annotations__['x'].__args__[0].__args__), Ts) is Ts",
        "many((1,)) == (1,)",
    ),
    "Generic classes": (
        "K = TypeVar('K')\nclass Box(Generic[K]):\n    def __init__(self, v: K): self.v = v\n"
        "IntBox = Box[int]\nbox = IntBox(3)",
        "IntBox.__origin__ is Box and Box.__parameters__ == (K,)",
        "isinstance(box, Box) and box.v == 3 and box.__orig_class__ == IntBox",
    ),
    "Protocols": (
        "@runtime_checkable\nclass Sized2(Protocol):\n    size: int\n    def grow(self): ...\n"
        "class Thing:\n    size = 1\n    def grow(self): pass\nthing = Thing()",
        "isinstance(thing, Sized2) and not isinstance(3, Sized2)",
        "Sized2._is_protocol and Sized2._is_runtime_protocol",
    ),
    "generic aliases": (
        "A1 = list[int]; A2 = dict[str, Tuple[int, ...]]; A3 = Union[int, None]; A4 = int | str\n"
        "A5 = Annotated[int, 'note', [1]]; A6 = Literal['a', 1, None]; A7 = Callable[[int], str]\n"
        "A8 = Type[int]; A9 = ClassVar[int]; A10 = Final[int]; A11 = ForwardRef('Nope'); A12 = Any",
        "A1 == list[int] and A2 == dict[str, Tuple[int, ...]]",
        "A3 == Optional[int] and A4 == int | str and type(A4) is types.UnionType",
        "A5.__metadata__ == ('note', [1]) and get_args(A6) == ('a', 1, None)",
        "A7 == Callable[[int], str] and A8 == Type[int] and A9 == ClassVar[int]",
        "A10 == Final[int] and A11.__forward_arg__ == 'Nope' and A12 is Any",
    ),
    "functional TypedDict": (
        "Movie = TypedDict('Movie', {'name': str, 'in': int}, total=False)\nm = Movie(name='x')",
        "m == {'name': 'x'} and type(m) is dict",
        "Movie.__annotations__ == {'name': str, 'in': int} and Movie.__total__ is False",
        "Movie.__optional_keys__ == {'name', 'in'} and not Movie.__required_keys__",
        "is_typeddict(Movie)",
    ),
    "TypedDict by class": (
        "class Base(TypedDict):\n    a: int\nclass More(Base, total=False):\n    b: list[Base]\n"
        "def use(x: More) -> Base: return x",
        "More.__required_keys__ == {'a'} and More.__optional_keys__ == {'b'}",
        "use.__annotations__['x'] is More and use({'a': 1}) == {'a': 1}",
        "More.__annotations__ == {'a': int, 'b': list[Base]}",
    ),
    "NamedTuple": (
        "class Pair(NamedTuple):\n    x: int\n    y: list = []\n    def both(self): return self.x, self.y\n"
        "Fun = NamedTuple('Fun', [('a', int), ('b', str)])\np, f = Pair(1), Fun(1, 'b')",
        "type(p) is Pair and p.both() == (1, []) and Pair._field_defaults == {'y': []}",
        "type(f) is Fun and f.b == 'b' and Fun.__annotations__ == {'a': int, 'b': str}",
        "Pair(1, 2)._replace(x=5) == (5, 2) and Fun._fields == ('a', 'b')",
    ),
    "namedtuple": (
        "Point = collections.namedtuple('Point', 'x y', defaults=[7])\npoint = Point(1)\npoints = [point] * 2",
        "type(point) is Point and point == (1, 7) and points[0] is points[1] is point",
        "Point._field_defaults == {'y': 7} and repr(point) == 'Point(x=1, y=7)'",
    ),
    "Enum by class": (
        "class Color(enum.Enum):\n    RED = 1\n    BLUE = 'b'\n    ALSO = 1\n    @property\n"
        "    def low(self): return self.name.lower()\nred = Color.RED\nby = {Color.BLUE: 2}",
        "red is Color.RED is Color(1) is Color['ALSO'] and red.low == 'red'",
        "by[Color.BLUE] == 2 and list(Color) == [Color.RED, Color.BLUE]",
    ),
    "functional Enum": (
        "Shade = enum.Enum('Shade', 'DARK LIGHT')\ndark = Shade.DARK\nall_of = list(Shade)",
        "dark is Shade.DARK and dark.value == 1 and all_of == list(Shade) and len(all_of) == 2",
        "isinstance(dark, Shade) and Shade(2) is Shade.LIGHT",
    ),
    "functional Enum with values": (
        "Lev = enum.IntEnum('Lev', {'LOW': 3, 'HIGH': 9})\nlow = Lev.LOW",
        "low is Lev.LOW and low + 1 == 4 and Lev(9) is Lev.HIGH",
    ),
    "Flag": (
        "Perm = enum.Flag('Perm', 'R W X')\nrw = Perm.R | Perm.W\n"
        "class Opt2(enum.IntFlag):\n    A = 1\n    B = 2\nab = Opt2.A | Opt2.B",
        "rw == Perm.R | Perm.W and rw is Perm(3) and Perm.R in rw and Perm.X not in rw",
        "ab is Opt2(3) and ab == 3",
    ),
    "Enum that makes its members": (
        "class Planet(enum.Enum):\n    A = 1, 2\n    B = 3, 4\n    C = 1, 2\n"
        "    def __init__(self, mass, radius): self.mass = mass; made_planets.append(mass)\n"
        "class Coord(bytes, enum.Enum):\n    def __new__(cls, value, label):\n"
        "        made = bytes.__new__(cls, [value]); made._value_ = value; made.label = label\n"
        "        return made\n    X = 1, 'x'\n    Y = 2, 'y'\nplanet = Planet.B",
        "planet is Planet.B and planet.mass == 3 and Planet.C is Planet.A",
        "Coord(2) is Coord.Y and Coord.Y == b'\\x02' and Coord.Y.label == 'y'",
        "made_planets == [1, 3, 1]",
    ),
    "Enum with all that it can have": (
        "class Full(enum.Enum):\n    @staticmethod\n    def _generate_next_value_(name, *_): return name\n"
        "    ONE = enum.auto()\n    LISTED = [1]\n    def __str__(self): return 'full'\n"
        "    @classmethod\n    def _missing_(cls, value): return cls.ONE\n"
        "Full.ONE.noted = [1]\nclass Day(datetime.date, enum.Enum):\n    FIRST = 2000, 1, 1\n"
        "class Rgb(enum.Flag):\n    R = 1\n    G = 2\n    RG = 3\nrg = Rgb.RG",
        "Full('x') is Full.ONE is Full['ONE'] and str(Full.ONE) == 'full' and Full.ONE.value == 'ONE'",
        "Full.LISTED.value == [1] and Full([1]) is Full.LISTED and Full.ONE.noted == [1]",
        "Day.FIRST.year == 2000 and rg is Rgb.RG is Rgb['RG'] and rg.name == 'RG' and len(Rgb) == 2",
    ),
    "StrEnum and auto": (
        "class Mode(enum.StrEnum):\n    ON = enum.auto()\n    OFF = enum.auto()\nmode = Mode.OFF",
        "mode is Mode.OFF and mode == 'off'",
    ),
    "only an Enum's member": (
        "only = enum.Enum('Only', 'ONE TWO').TWO",
        "only.name == 'TWO' and only is type(only)(2) and type(only).__name__ == 'Only'",
    ),
    "make_dataclass": (
        "Made = dataclasses.make_dataclass('Made', [('x', int), ('y', list, dataclasses.field("
        "default_factory=list))], frozen=True)\nmade = Made(1)",
        "type(made) is Made and made == Made(1) and made.y == []",
        "[f.name for f in dataclasses.fields(Made)] == ['x', 'y']",
        "dataclasses.replace(made, x=5).x == 5 and hash(Made(1, (2,))) is not None",
    ),
    "dataclass with slots": (
        "@dataclasses.dataclass(slots=True, order=True)\nclass Slots:\n    x: int\n    y: float = 2.0\n"
        "slots = Slots(1)",
        "slots < Slots(2) and not hasattr(slots, '__dict__') and slots.y == 2.0",
    ),
    "new_class": (
        "New = types.new_class('New', (dict,), {}, lambda ns: ns.update(tag=5))\nnew = New(a=1)\n"
        "Three = type('Three', (), {'v': 3, 'f': lambda self: self.v})\nthree = Three()",
        "type(new) is New and new == {'a': 1} and new.tag == 5 and three.f() == 3",
    ),
    "SimpleNamespace": (
        "space = types.SimpleNamespace(a=[1], b=2); space.me = space",
        "space.a == [1] and space.me is space",
    ),
    "MappingProxyType": (
        "class A: x = 5\nofa = vars(A)\nunder = {'a': 1}\nproxy = types.MappingProxyType(under)",
        "proxy['a'] == 1 and type(proxy) is types.MappingProxyType",
        "under.__setitem__('b', 2) or proxy['b'] == 2",
        "vars(dict) is not None and ofa['x'] == 5 and A.__dict__ == ofa",
    ),
    "partial": (
        "part = functools.partial(int, base=2)\n"
        "class Has:\n    def m(self, a, b): return a, b\n    pm = functools.partialmethod(m, 1)\nhas = Has()",
        "part('101') == 5 and has.pm(2) == (1, 2)",
    ),
    "singledispatch": (
        "@functools.singledispatch\ndef show(x): return 'any'\n@show.register\ndef _show_int(x: int): return 'int'\n"
        "@show.register(list)\ndef _show_list(x): return 'list'\n"
        "class Own: pass\nshow.register(Own, lambda x: 'own')\nown = Own()",
        "show(1) == 'int' and show([]) == 'list' and show('') == 'any' and show(own) == 'own'",
        "show.dispatch(int) is _show_int and int in show.registry",
    ),
    "singledispatchmethod": (
        "class Sdm:\n    @functools.singledispatchmethod\n    def go(self, x): return 'any'\n"
        "    @go.register\n    def _(self, x: int): return 'int'\nsdm = Sdm()",
        "sdm.go(1) == 'int' and sdm.go('') == 'any'",
    ),
    "property and classmethod objects": (
        "prop = property(lambda self: 5)\ncm = classmethod(lambda cls: cls)\nsm = staticmethod(len)\n"
        "class Uses:\n    five = prop\n    who = cm\n    size = sm\nuses = Uses()",
        "uses.five == 5 and Uses.who() is Uses and uses.size([1]) == 1",
        "Uses.__dict__['five'] is prop and type(cm) is classmethod and sm.__func__ is len",
    ),
    "cached_property": (
        "class Cached:\n    @functools.cached_property\n    def once(self): return [1]\nc = Cached(); kept = c.once",
        "c.once is kept and Cached().once == [1]",
    ),
    "lru_cache": (
        "@functools.lru_cache\ndef square(x): return x * x\nsquare(3)",
        "square(4) == 16 and square.cache_info().hits >= 0",
    ),
    "wraps": (
        "def deco(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a)\n    return w\n@deco\ndef plain(a): 'doc'; return a",
        "plain(3) == 3 and plain.__doc__ == 'doc' and plain.__wrapped__(4) == 4",
    ),
    "total_ordering, cmp_to_key": (
        "@functools.total_ordering\nclass Tot:\n    def __init__(s, v): s.v = v\n"
        "    def __eq__(s, o): return s.v == o.v\n    def __lt__(s, o): return s.v < o.v\n"
        "key = functools.cmp_to_key(lambda a, b: b - a)\ntot = Tot(1)",
        "tot <= Tot(2) and sorted([1, 3, 2], key=key) == [3, 2, 1]",
    ),
    "weak references": (
        "class Target: pass\nt1 = Target(); ref = weakref.ref(t1)\nws = weakref.WeakSet([t1])\n"
        "wv = weakref.WeakValueDictionary(a=t1); wk = weakref.WeakKeyDictionary({t1: 2})\npx = weakref.proxy(t1)",
        "ref() is t1 and t1 in ws and wv['a'] is t1 and wk[t1] == 2",
        "px.__class__ is Target",
    ),
    "WeakMethod": (
        "class Wm:\n    def m(self): return 5\nwm = Wm(); method = weakref.WeakMethod(wm.m)",
        "method()() == 5",
    ),
    "ContextVar": (
        "cv = contextvars.ContextVar('cv', default=[0]); unset = contextvars.ContextVar('unset')\n_ = cv.set([1]); del _",
        "cv.get() == [1] and unset.get('none') == 'none' and cv.name == 'cv'",
    ),
    "ContextVar that only a cell set": (
        "cv2 = contextvars.ContextVar('cv2')\nheld = {'var': cv2}\ntoken_free = cv2.set(7) and None",
        "held['var'] is cv2 and cv2.get() == 7",
    ),
    "array": (
        "au = array.array('u', 'h\\u00e9llo'); ad = array.array('d', [1, 2]); aq = array.array('q', range(5000))\n"
        "ab = array.array('b', b'abc'); ae = array.array('u'); af = array.array('f'); aw = [array.array('u', 'x')]",
        "au.tounicode() == 'h\\u00e9llo' and au.typecode == 'u'",
        "ad.tolist() == [1, 2] and aq[4999] == 4999 and ab.tobytes() == b'abc'",
        "ae.typecode == 'u' and len(ae) == 0 and af.typecode == 'f' and aw[0][0] == 'x'",
    ),
    "every array type": (
        "arrays = {c: array.array(c, [1, 2]) for c in 'bBhHiIlLqQfd'}\n"
        "globals().update({f'arr_{c}': array.array(c, [3]) for c in 'bBhHiIlLqQfd'})",
        "all(a.typecode == c and a.tolist() == [1, 2] for c, a in arrays.items())",
        "all(globals()[f'arr_{c}'] == array.array(c, [3]) for c in arrays)",
        "all(globals()[f'arr_{c}'].typecode == c for c in arrays)",
    ),
    "collections": (
        "cm1, cm2 = {'a': 1}, {'b': 2}\nchain = collections.ChainMap(cm1, cm2)\n"
        "class UD(collections.UserDict): pass\nud = UD(x=1); ul = collections.UserList([1]); us = collections.UserString('s')\n"
        "dq = collections.deque([1], maxlen=2); od = collections.OrderedDict(b=1, a=2); dd = collections.defaultdict(lambda: 5)",
        "chain.maps[0] is cm1 and chain['b'] == 2 and ud['x'] == 1 and type(ud) is UD",
        "ul == [1] and us == 's' and dq.maxlen == 2 and list(od) == ['b', 'a'] and dd['q'] == 5",
    ),
    "dict views and operators": (
        "ig = operator.itemgetter(1, 2); ag = operator.attrgetter('a.b'); mc = operator.methodcaller('upper')",
        "ig('abc') == ('b', 'c') and mc('x') == 'X'",
        "ag(types.SimpleNamespace(a=types.SimpleNamespace(b=3))) == 3",
    ),
    "functions with everything": (
        "def full(a, /, b: 'int' = 2, *c, d=[1], **e): return a, b, c, d, e\nfull.attr = [1]\n"
        "gen_f = lambda: (yield 1)\nasync def co(): return 1\nsig = inspect.signature(full)",
        "full(1) == (1, 2, (), [1], {}) and full.attr == [1] and list(gen_f()) == [1]",
        "inspect.iscoroutinefunction(co) and str(sig) == \"(a, /, b: 'int' = 2, *c, d=[1], **e)\"",
    ),
    "bound methods": (
        "class Bm:\n    def __init__(self): self.n = 0\n    def up(self): self.n += 1; return self.n\n"
        "    @classmethod\n    def cm(cls): return cls\nbm = Bm(); up = bm.up; bcm = Bm.cm; app = [].append",
        "up.__self__ is bm and bcm() is Bm and up.__func__ is Bm.up and type(app.__self__) is list",
    ),
    "abstract classes": (
        "class Ab(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\nclass Im(Ab):\n    def f(self): return 1\n"
        "class Virtual: pass\nAb.register(Virtual)\nim = Im(); vi = Virtual()",
        "im.f() == 1 and isinstance(im, Ab) and isinstance(vi, Ab) and inspect.isabstract(Ab)",
    ),
    "metaclass and __init_subclass__": (
        "subs = []\nclass Mt(type):\n    def __call__(cls, *a): return super().__call__(*a)\n"
        "class Rg(metaclass=Mt):\n    def __init_subclass__(cls, **k): subs.append(cls.__name__)\n"
        "class Sub1(Rg): pass\nrg = Sub1()",
        "subs == ['Sub1'] and type(Sub1) is Mt and isinstance(rg, Rg)",
    ),
    "sentinels and singletons": (
        "MISSING = object()\ndef default(x=MISSING): return x is MISSING\n"
        "nt, el = NotImplemented, Ellipsis\nAUTO = enum.auto()",
        "default() and default(3) is False and nt is NotImplemented and el is ...",
    ),
    "patterns, fork servers": (
        "pat = re.compile('(a)(?P<n>b)?', re.I); mt = pat.match('AB'); tp = string.Template('$x')\n"
        "fm = string.Formatter()",
        "pat.flags & re.I and mt['n'] == 'B' and tp.substitute(x=1) == '1' and fm.format('{}', 2) == '2'",
    ),
    "numbers": (
        "de = decimal.Decimal('1.10'); fr = fractions.Fraction(1, 3); dc = decimal.Context(prec=7)",
        "str(de) == '1.10' and fr.denominator == 3 and dc.prec == 7",
    ),
    "itertools": (
        "cyc = itertools.count(5); cyc2 = itertools.chain([1], [2]); zp = zip([1, 2], 'ab')",
        "isinstance(cyc, itertools.count) and type(zp) is zip",
    ),
    "exception groups and classes": (
        "class Err(Exception):\n    def __init__(self, a, *, b): super().__init__(a); self.b = b\n"
        "er = Err(1, b=2)\neg = ExceptionGroup('g', [er, ValueError(3)])",
        "er.args == (1,) and er.b == 2 and eg.exceptions[0] is er and eg.message == 'g'",
    ),
    "code and modules": (
        "code = compile('1 + 2', 'f', 'eval'); mod = types.ModuleType('mod', 'doc'); mod.x = [1]",
        "eval(code) == 3 and mod.x == [1] and mod.__doc__ == 'doc'",
    ),
    "dynamic attributes": (
        "dyn = types.DynamicClassAttribute(lambda self: 1); cb = types.MethodType(lambda self: self, 5)",
        "cb() == 5",
    ),
    "a mapping of types": (
        "reg = {int: 'i', list[int]: 'l', Optional[str]: 'o', type(None): 'n'}",
        "reg[int] == 'i' and reg[list[int]] == 'l' and reg[Optional[str]] == 'o' and reg[type(None)] == 'n'",
    ),
}
if sys.version_info >= (3, 12):
    ROWS["type statements"] = (
        "type Al = list[int]\ntype Ge[Q] = dict[str, Q]\ndef gf[Q](x: Q) -> Q: return x\n"
        "class Gc[Q]:\n    v: Q",
        "Al.__value__ == list[int] and Ge.__type_params__[0].__name__ == 'Q' and gf(2) == 2",
        "Gc[int].__origin__ is Gc",
    )

ISOLATED = "%%isolated\n"


def checks_of(row):
    """A cell that shows for each check whether it holds, or what it raised."""
    return "\n".join(
        ["_found = {}"]
        + [
            f"try: _found[{text!r}] = bool({text})\nexcept BaseException as e: _found[{text!r}] = repr(e)"
            for text in row[1:]
        ]
        + ["print('FOUND', [one for one in _found.items() if one[1] is not True])\ndel _found"]
    )


def found(kernel, head, row):
    outcome = kernel.run(head + checks_of(row))
    if outcome.status != "ok":
        return outcome.content["evalue"]
    said = [line for line in outcome.stream().splitlines() if line.startswith("FOUND")]
    return said[0][6:] if said else "nothing said"


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("first", ["", ISOLATED], ids=["plain", "isolated"])
def test_what_a_call_made(shared_isolated_kernel, first, row):
    kernel = shared_isolated_kernel
    assert kernel.run(START + "x = 0").status == "ok"
    outcome = kernel.run(first + ROWS[row][0])
    assert outcome.status == "ok", outcome.content
    other = "" if first else ISOLATED
    results = [found(kernel, head, ROWS[row]) for head in (other, first, other)]
    assert results == ["[]"] * 3, (results, outcome.stream("stderr"))
