"""wrapt's proxies, encoded and decoded."""

import sys

import pytest

import holdfast
from holdfast.store import Error

wrapt = pytest.importorskip("wrapt")


@wrapt.decorator
def doubled(wrapped, instance, args, kwargs):
    return 2 * wrapped(*args, **kwargs)


def crossed(value):
    return holdfast.loads(holdfast.dumps([value]))[0]


def test_a_decorated_function_stays_decorated():
    @doubled
    def plus(x, y=1):
        return x + y

    plus._self_seen = [1]
    copy = crossed(plus)
    assert type(copy) is wrapt.FunctionWrapper and copy(3) == 8 and copy.__name__ == "plus"
    assert type(copy.__wrapped__) is type(plus.__wrapped__) and copy._self_seen == [1]


def test_a_decorated_method_stays_bound():
    class Number:
        value = 4

        @doubled
        def plus(self, x):
            return self.value + x

    number = Number()
    same, method = crossed((number, number.plus))
    assert type(method) is wrapt.BoundFunctionWrapper and method(1) == 10
    assert method.__self__ is same and method._self_parent is vars(type(same))["plus"]


@pytest.mark.parametrize("kind", ["ObjectProxy", "BaseObjectProxy", "CallableObjectProxy"])
def test_proxies_wrap_the_same_object(kind):
    held = {"a": 1}
    proxy = getattr(wrapt, kind)(held)
    other, copy = crossed((held, proxy))
    assert type(copy) is type(proxy) and copy.__wrapped__ is other


def test_a_proxy_of_an_own_class_and_a_partial_one():
    class Counted(wrapt.ObjectProxy):
        def __init__(self, wrapped):
            super().__init__(wrapped)
            self._self_count = 0

    counted = Counted([1])
    counted._self_count = 3
    copy = crossed(counted)
    assert copy._self_count == 3 and copy == [1] and type(copy).__name__ == "Counted"
    assert crossed(wrapt.partial(divmod, 7))(2) == (3, 1)


def test_classes_of_a_module_that_names_itself_in_short():
    assert crossed(wrapt.FunctionWrapper) is wrapt.FunctionWrapper


def test_a_function_of_a_module_is_the_modules(tmp_path, monkeypatch):
    text = (
        "import wrapt\n@wrapt.decorator\ndef same(w, i, a, k): return w(*a, **k)\n"
        "@same\ndef f(): pass\n"
    )
    (tmp_path / "wrapped_here.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import wrapped_here

    assert crossed(wrapped_here.f) is wrapped_here.f
    del sys.modules["wrapped_here"]


def test_one_with_a_class_of_its_own_stays():
    with pytest.raises(Error, match="class of its own"):
        crossed(wrapt.LazyObjectProxy(list))
