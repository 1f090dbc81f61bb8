"""A call once a module has been imported, whoever loads it; nothing of it is left."""

import importlib
import importlib.machinery
import importlib.util
import sys
import traceback

import pytest
from holdfast.base.after_import import (
    LoaderOfText,
    Waiting,
    call_after_import,
    call_once_imported,
    watch_imports,
)


@pytest.mark.parametrize(
    "name", ["xxsubtype", "__hello__", "colorsys"]
)  # built in, frozen, of a file
def test_it_is_called_once(monkeypatch, name):
    monkeypatch.delitem(sys.modules, name, raising=False)
    finders, calls = list(sys.meta_path), []
    loaders = dict(vars(importlib.machinery.BuiltinImporter))
    call_after_import(name, lambda: calls.append(sys.modules[name]))
    assert importlib.util.find_spec(name) is not None and not calls  # only looked for
    module = importlib.import_module(name)
    assert calls == [module] and sys.meta_path == finders
    assert "_after_import" not in repr(module.__spec__) + repr(module.__loader__)
    assert dict(vars(importlib.machinery.BuiltinImporter)) == loaders
    importlib.reload(module)
    assert calls == [module]


def test_a_module_that_fails_is_not_reported(tmp_path, monkeypatch):
    (tmp_path / "fails_late.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    calls = []
    call_after_import("fails_late", lambda: calls.append(1))
    with pytest.raises(ZeroDivisionError):
        import fails_late  # noqa: F401
    assert not calls


def test_what_an_import_raises_shows_nothing_of_it(tmp_path, monkeypatch):
    (tmp_path / "fails_seen.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    call_after_import("fails_seen", lambda: None)

    def is_wanted(spec):
        spec.loader = LoaderOfText(spec.loader, b"2 / 0")
        return True

    end = watch_imports(is_wanted, lambda module: None)
    try:
        with pytest.raises(ZeroDivisionError) as raised:
            importlib.import_module("fails_seen")
    finally:
        end()
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert not any(file.endswith("/_after_import.py") for file in files)
    assert files[-1].endswith("fails_seen.py")


def test_values_wait_for_their_modules(monkeypatch, capsys):
    """Those of one module are set at the end of its import; one that can't be costs neither the others nor the import."""
    for name in ("colorsys", "sndhdr", "this_is_nowhere"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    finders, put = list(sys.meta_path), []

    def set_one(key, value):
        put.append((key, value))
        if value == "bad":
            raise ValueError("it refuses")

    waiting = Waiting(set_one, lambda key: key.partition(":")[0])
    waiting.set("sys:a", 1)
    assert put == [("sys:a", 1)] and waiting.values == {}
    for key, value in {"colorsys:a": "bad", "colorsys:b": 2, "this_is_nowhere:c": 3}.items():
        waiting.set(key, value)
    waiting.set("colorsys:b", 4)
    assert len(put) == 1 and len(sys.meta_path) == len(finders) + 2
    assert list(waiting.values.values()) == ["bad", 3, 4]
    importlib.import_module("colorsys")
    assert put[1:] == [("colorsys:a", "bad"), ("colorsys:b", 4)]
    assert waiting.values == {"this_is_nowhere:c": 3}
    assert "it refuses" in capsys.readouterr().err
    waiting.set("colorsys:b", 5)
    assert put[-1] == ("colorsys:b", 5)
    sys.meta_path[:] = finders


def test_a_call_now_or_later(monkeypatch):
    calls = []
    call_once_imported("sys", lambda: calls.append("now"))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    call_once_imported("colorsys", lambda: calls.append("later"))
    assert calls == ["now"]
    importlib.import_module("colorsys")
    assert calls == ["now", "later"]
