"""One bad variable costs itself: all else is saved, and each culprit is named with its path."""

import copyreg
import os
import re
import sys
import threading

import cloudpickle
import pytest

import holdfast
from holdfast.carry import patches, pickling

LIBRARIES = ("numpy",)
# name -> source, what the reason must name, where it stands
CULPRITS = {
    "generator": ("bad = (i for i in range(3))", "generator at bad"),
    "nested": ("bad = {'a': [1, (i for i in range(3))]}", r"generator at bad\['a'\]\[1\]"),
    "lock": ("import threading; bad = [threading.Lock()]", r"lock at bad\[0\]"),
    "thread": ("import threading; bad = threading.Thread()", "at bad"),
    "cursor": ("import sqlite3; bad = sqlite3.connect(':memory:').cursor()", "Cursor at bad"),
    "connection": ("import sqlite3; bad = {'db': sqlite3.connect(':memory:')}", r"\['db'\]"),
    "coroutine": ("async def f(): pass\nbad = f()", "coroutine at bad"),
    "frame": ("import sys; bad = (sys._getframe(),)", r"frame at bad\[0\]"),
    "socket": ("import socket; bad = socket.socket()", "socket at bad .*kernel only"),
    "pipe": ("import os; bad = [os.fdopen(os.pipe()[0])]", r"at bad\[0\]"),
    "proxy": (
        "import weakref\nclass R(weakref.ref): pass\nclass C: pass\nc = C(); bad = [R(c)]",
        r"R at bad\[0\]",
    ),
    "slot": ("class C: __slots__ = 'x'\nbad = C(); bad.x = iter(())and(i for i in ())", r"bad\.x"),
    "attribute": (
        "class C: pass\nbad = C(); bad.y = [C()]; bad.y[0].z = (i for i in ())",
        r"generator at bad\.y\[0\]\.z",
    ),
    "closure": (
        "def f():\n    g = (i for i in ())\n    return lambda: g\nbad = f()",
        r"bad\.<closure g>",
    ),
    "partial": (
        "import functools; bad = functools.partial(print, (i for i in ()))",
        r"bad\.args\[0\]",
    ),
    "deque": ("import collections; bad = collections.deque([1, (i for i in ())])", r"bad\[1\]"),
    "module_like": ("import select; bad = select.epoll()", "epoll at bad"),
    "ssl": ("import ssl; bad = ssl.create_default_context()", "SSLContext at bad"),
    "process": (
        "import subprocess, sys; bad = subprocess.Popen([sys.executable, '-c', ''], "
        "stdin=subprocess.PIPE); bad.wait()",
        "Popen at bad ",
    ),
    "future": ("import concurrent.futures as c; bad = c.Future()", "Future at bad "),
    "event_loop": ("import asyncio; bad = asyncio.new_event_loop()", "at bad"),
    "match": ("import re; bad = list(re.finditer('a', 'aa'))", r"Match at bad\[1\]"),
    "finalizer": ("import tempfile; bad = tempfile.TemporaryDirectory()", r"bad\._finalizer"),
}
GOOD = (
    "import numpy as np\narray = np.arange(10_000); view = array[5:]; table = {'a': [array]}\n"
    "def double(x): return 2 * x\nclass Point:\n    x = 1\np = Point(); text = 'kept'"
)


@pytest.mark.parametrize("kind", CULPRITS)
def test_each_culprit_alone(main, kind):
    pytest.importorskip("numpy")
    source, where = CULPRITS[kind]
    main.execute(GOOD)
    good = set(main.ns) - {"__name__", "__builtins__"}
    main.execute(source)
    report = main.commit()
    assert set(report["unserializable"]) == {"bad"}
    assert re.search(where, report["unserializable"]["bad"]), report["unserializable"]["bad"]
    assert good <= set(report["saved"])
    answer = main.other(
        "names.bind(ns)\nanswer(text=ns['text'], x=ns['double'](int(ns['view'][0])))"
    )
    assert answer == {"text": "kept", "x": 10}


def test_all_culprits_together(main):
    pytest.importorskip("numpy")
    main.execute(GOOD)
    good = set(main.ns) - {"__name__", "__builtins__"}
    for kind, (source, _) in CULPRITS.items():
        main.execute(source)
        main.ns["bad_" + kind] = main.ns.pop("bad")
    report = main.commit()
    assert set(report["unserializable"]) == {"bad_" + kind for kind in CULPRITS}
    assert good <= set(report["saved"])
    for name, reason in report["unserializable"].items():
        assert name in reason


def test_what_an_exception_was_raised_from(main):
    main.execute("""
class Own(Exception):
    def __init__(self, a): super().__init__(a, 1)
shared = [1]
def fail(kind):
    try:
        try: {}[0]
        except KeyError: raise kind(shared) from OSError(2, 'gone')
    except Exception as error: return error
def meet():
    try:
        try: {}[0]
        except KeyError: int('x')
    except ValueError as error: return error
plain, own, met = fail(ValueError), fail(Own), meet()
""")
    main.commit()
    assert main.other("""
names.bind(ns)
errors = [ns[name] for name in ("plain", "own", "met")]
answer(
    cause=[repr(error.__cause__) for error in errors],
    context=[repr(error.__context__) for error in errors],
    hides=[error.__suppress_context__ for error in errors],
    same=ns["plain"].args[0] is ns["own"].args[0] is ns["shared"],
)
""") == {
        "cause": ["FileNotFoundError(2, 'gone')", "FileNotFoundError(2, 'gone')", "None"],
        "context": ["KeyError(0)"] * 3,
        "hides": [True, True, False],
        "same": True,
    }


def test_a_class_of_named_fields(main):
    main.execute("""
import typing
class Pair(typing.NamedTuple):
    a: int
    b: list = []
    def sum(self): return self.a + len(self.b)
class Titled(typing.TypedDict):
    title: str
pair = Pair(1)
""")
    assert main.commit()["unserializable"] == {}
    assert main.other("""
names.bind(ns)
pair = ns["pair"]
answer(pair=repr(pair), sum=pair.sum(), fields=pair._fields, same=type(pair) is ns["Pair"],
       default=pair.b is ns["Pair"]._field_defaults["b"], titled=ns["Titled"](title="x"))
""") == {
        "pair": "Pair(a=1, b=[])",
        "sum": 1,
        "fields": ["a", "b"],
        "same": True,
        "default": True,
        "titled": {"title": "x"},
    }


def test_a_match_is_found_again(main):
    main.execute("""
import re
pattern = re.compile(r"(?P<word>b+)|(x)")
found = [pattern.search("abbb"), pattern.match("abbb", 2), pattern.fullmatch("abbb", 1, 3)]
found += [re.fullmatch("a|ab", "ab"), re.search(b"c", b"abc")]
""")
    assert main.commit()["unserializable"] == {}
    assert main.other("""
names.bind(ns)
answer(spans=[match.span() for match in ns["found"]], word=ns["found"][0]["word"],
       same=ns["found"][0].re is ns["pattern"], saved=save(ns)["saved"])
""") == {
        "spans": [[1, 4], [2, 4], [1, 3], [0, 2], [2, 3]],
        "word": "bbb",
        "same": True,
        "saved": [],
    }


def test_the_path_to_a_culprit_goes_in_no_circle():
    """A canvas knows its figure, whose axes know their canvas."""
    import threading

    from holdfast.carry.reasons import explain

    class Part:
        pass

    figure, axes = Part(), Part()
    figure._axes, axes._axes = axes, figure
    assert explain("fig", figure, "no").startswith("Part at fig"), "nothing else is wrong"
    figure.held = [threading.Lock()]
    assert explain("fig", figure, "no") == "lock at fig.held[0] (no)"
    axes.own = threading.Lock()
    assert explain("fig", figure, "no") == "lock at fig._axes.own (no)"


def test_a_lock_in_what_a_codec_refuses_is_not_the_reason(monkeypatch):
    import threading

    from holdfast.base.sentences import brief
    from holdfast.carry import reasons

    class Refused:
        def __init__(self):
            self.lock = threading.Lock()

    def encode(value, buffer):
        if isinstance(value, (Refused, list)):
            raise ValueError("it stays at home")
        raise TypeError(f"cannot pickle '{type(value).__name__}' object")

    monkeypatch.setattr(reasons, "encode", encode)
    why = reasons.explain("x", [threading.Lock(), Refused()], "ValueError: it stays at home")
    assert why == "Refused at x[1] (ValueError: it stays at home)"
    assert brief("x", why) == "Refused inside: ValueError: it stays at home"
    assert brief("x", reasons.explain("x", {"a": threading.Lock()}, "no")) == "lock inside: no"


class _Half:
    """Can't be made again, for want of a part; its finalizer needs what isn't there yet."""

    finalized = 0

    def __init__(self):
        self.name, self.part = "whole", _Part()

    def __del__(self):
        _Half.finalized += 1
        self.name  # noqa: B018


class _Part:
    def __reduce__(self):
        return _fail, ()


def _fail():
    raise ValueError("no part")


def test_half_an_object_says_nothing(monkeypatch):
    heard = []
    hook = heard.append
    monkeypatch.setattr(sys, "unraisablehook", hook)
    data = holdfast.dumps(_Half())
    before = _Half.finalized
    with pytest.raises(Exception, match="no part"):
        holdfast.loads(data)
    assert _Half.finalized > before and not heard
    assert sys.unraisablehook is hook


_inside, _go_on = threading.Event(), threading.Event()


class _Slow:
    def __reduce__(self):
        return _wait, ()


def _wait():
    _inside.set()
    return _go_on.wait(60)


def test_another_thread_is_heard(monkeypatch):
    """While one decodes, and after two have ended."""
    heard = []
    hook = lambda args: heard.append(args.exc_type)  # noqa: E731
    monkeypatch.setattr(sys, "unraisablehook", hook)
    slow = threading.Thread(target=holdfast.loads, args=(holdfast.dumps(_Slow()),))
    slow.start()
    assert _inside.wait(60)
    half = _Half()
    del half.name
    del half
    assert heard == [AttributeError]
    holdfast.loads(holdfast.dumps(_wait))
    _go_on.set()
    slow.join(60)
    assert sys.unraisablehook is hook


class _LikeFunction:
    """A proxy: it shows the attributes, and the class, of what it leads to."""

    def __init__(self, function):
        self.leads_to = function

    __class__ = property(lambda self: type(self.leads_to))

    def __reduce__(self):
        return _LikeFunction, (self.leads_to,)


def test_a_proxy_is_not_what_it_leads_to():
    def function():
        return 1

    copy = holdfast.loads(holdfast.dumps([_LikeFunction(function)]))[0]
    assert type(copy) is _LikeFunction and copy.leads_to() == 1


def test_what_a_class_says_is_asked_once(monkeypatch):
    """Of each further object only what may differ: in a notebook of many small objects this is most of the time of
    a cell in a clean process."""
    monkeypatch.setattr(patches, "current", None)  # another test's shell
    calls = []

    class Small:
        pass

    Small.__module__ = "__main__"

    ours = os.path.dirname(holdfast.__file__), os.path.dirname(cloudpickle.__file__)

    def count(frame, event, _):  # not what a collection runs meanwhile, of other tests' objects
        if event == "call" and threading.get_ident() == here:
            if frame.f_code.co_filename.startswith(ours):
                calls.append(frame.f_code.co_name)

    here, made = threading.get_ident(), {}
    for many in (10, 1010):
        box = [Small() for _ in range(many)]
        sys.setprofile(count)
        try:
            pickling.encode(box, list.append)
        finally:
            sys.setprofile(None)
        made[many] = len(calls)
        calls.clear()
    assert (made[1010] - made[10]) // 1000 <= 5  # and a few for the first of them


def test_a_type_registered_meanwhile_is_pickled_by_its_function(monkeypatch):
    class Late:
        def __reduce__(self):
            raise TypeError("it isn't asked")

    class Early:
        def __reduce__(self):
            monkeypatch.setitem(copyreg.dispatch_table, Late, lambda one: (int, (5,)))
            return int, (4,)

    data, *_ = pickling.encode([Early(), Late()], list.append)
    assert pickling.decode(data, []) == [4, 5]


def test_one_object_of_a_class_may_be_an_exception_to_it():
    class Options:
        pass

    box = [Options(), Options(), Options()]
    data, *_ = pickling.encode([*box, vars(box[1])], list.append)
    found = pickling.decode(data, [])
    found[3]["a"] = 1
    assert [vars(one) for one in found[:3]] == [{}, {"a": 1}, {}]
