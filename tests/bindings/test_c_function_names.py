"""A function of an extension module is named after what defines it, whoever calls it first."""

import pytest
from trace_reader import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="otf2-print isn't installed")


def test_methods_that_are_inherited(record_script):
    trace = record_script(
        """
        import collections
        class Basket(list): pass
        class Deep(Basket): pass
        class Table(dict): pass
        class Meta(type): pass
        class Made(metaclass=Meta): pass
        class Row(tuple):
            def __new__(cls): return tuple.__new__(cls)
        class Plain:
            def __new__(cls): return object.__new__(cls)

        Deep().append(1); Basket().append(1); [].append(2)
        Table.fromkeys("a"); dict.fromkeys("a")
        Made.mro(); int.mro()
        collections.OrderedDict().popitem if 0 else None
        class Line(collections.deque): pass
        Line().append(1); collections.deque().append(1)
        Row(); Plain()
        class Text(str): pass
        Text("a").upper(); Text.maketrans("a", "b"); str.maketrans("a", "b")
        """,
        "--c-functions",
    )
    names = trace.calls(prefix="")
    expected = {
        "builtins.list:append": 3,
        "builtins.dict:fromkeys": 2,
        "builtins.type:mro": 2,
        "collections.deque:append": 2,
        "builtins.tuple:__new__": 1,
        "builtins.object:__new__": 1,
        "builtins.str:upper": 1,
        "builtins.str:maketrans": 2,
    }
    assert {name: names.count(name) for name in expected} == expected
    own = ("Basket", "Deep", "Table", "Meta", "Made", "Row", "Plain", "Line", "Text")
    c_names = {region.name for region in trace.regions.values() if not region.file}
    assert not [name for name in c_names if any(word in name for word in own)]


def test_a_function_that_is_bound_to_an_object_of_a_class(record_script):
    """No type has it: the object's class is named with its module."""
    trace = record_script(
        """
        import functools
        class Key: pass
        compare = functools.cmp_to_key(lambda a, b: 0)
        compare(1) < compare(2)
        [1, 2].sort(key=compare)
        """,
        "--c-functions",
    )
    names = trace.calls(prefix="")
    assert "builtins.list:sort" in names and "_functools:cmp_to_key" in names
