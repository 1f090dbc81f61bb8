"""What the user's own modules were loaded from, as other processes are to load them (own_code.py)."""

import importlib
import os
import sys
import types

import pytest
from holdfast.base.after_import import watch_imports
from holdfast.worker.settings import own_code as module_of_code
from holdfast.worker.settings.attributes import is_own
from holdfast.worker.settings.own_code import OwnCode

OLD, NEW = "x = 'old'\n", "x = 'newer'\n"


class Process:
    """Stands for one: its modules are gone from this one when another begins."""

    def __init__(self):
        for name in [name for name in sys.modules if name.startswith("hf_code")]:
            del sys.modules[name]
        self.code = OwnCode()
        self._end = watch_imports(self._is_wanted, self.code.imported)

    def _is_wanted(self, spec):
        self.code.prepare(spec)
        return is_own(spec)

    def end(self):
        self._end()
        return self.code.read()


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Begins one, which ends when the next begins, and gets what that had to say."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    running = []

    def begin():
        said = running.pop().end() if running else None
        running.append(Process())
        if said is not None:
            running[0].code.write(said)
        return running[0].code

    yield begin
    begin()
    running.pop().end()


@pytest.fixture
def write(tmp_path):
    def to(text, name="hf_code", time=[1_000_000_000]):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        time[0] += 5
        os.utime(path, (time[0], time[0]))
        importlib.invalidate_caches()
        return path

    return to


def load():
    return importlib.import_module("hf_code")


def test_a_file_that_is_the_same_says_nothing(process, write):
    code = process()
    write(OLD)
    load()
    assert code.read() == {"texts": {}, "reloads": {}}
    write(OLD)  # written anew
    assert code.read()["texts"] == {} and not code.lost()


def test_a_changed_file_is_carried(process, write):
    process()
    path = write(OLD)
    load()
    write(NEW)
    code = process()
    module = load()
    assert module.x == "old"
    assert type(module.__loader__) is type(module.__spec__.loader) is type(pytest.__loader__)
    assert module.__file__ == str(path)
    process()
    assert load().x == "old", "this process carries it on"
    code = process()
    code.write({"texts": {}, "reloads": {}})
    assert load().x == "newer"


def test_a_module_of_that_name_elsewhere_has_its_own_text(process, write, tmp_path, monkeypatch):
    process()
    write(OLD)
    load()
    write(NEW)
    process()
    (tmp_path / "other").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "other")
    (tmp_path / "other" / "hf_code.py").write_text("x = 'other'\n")
    assert load().x == "other"


def test_modules_are_loaded_in_the_same_order(process, write, capsys):
    code = process()
    write("import hf_code_b\n" + OLD)
    write("print('loading')\n", "hf_code_b")
    write("1 / 0\n", "hf_code_c")
    load()
    files, _ = said = code.capture()
    names = list(files)
    assert names == ["hf_code_b", "hf_code"] and code.apply(said) is False
    code = process()
    capsys.readouterr()
    others = dict.fromkeys(("hf_code_c", "hf_code_nowhere"), "")
    assert code.apply((files | others, said[1])) is True
    assert list(code.capture()[0]) == names and capsys.readouterr().out == ""
    assert code.apply(({"hf_code_c": ""}, said[1])) is False


def test_another_file_of_that_name_is_passed_over(process, write, tmp_path, monkeypatch):
    code = process()
    (tmp_path / "hf_code_pack").mkdir()
    package = write("x = 'old'\n", "hf_code_pack/__init__")
    write("x = 'within'\n", "hf_code_pack/inner")
    path = write(OLD)
    load()
    importlib.import_module("hf_code_pack.inner")
    said = code.capture()
    other = tmp_path / "other"
    (other / "hf_code_pack").mkdir(parents=True)
    write(NEW, "other/hf_code_pack/__init__")
    write(NEW, "other/hf_code")
    monkeypatch.syspath_prepend(other)
    code = process()
    assert code.apply(said)
    assert load().x == "old" and load().__file__ == str(path)
    assert sys.modules["hf_code_pack"].__file__ == str(package)
    assert sys.modules["hf_code_pack.inner"].x == "within"
    assert code.capture() == said
    del sys.modules["hf_code"]
    assert load().x == "newer", "what the code itself imports is found as ever"


def test_loading_anew_is_repeated(process, write, capsys):
    main = process()
    write(OLD + "print('loading')\n")
    module = load()
    assert not main.has_loaded_anew()
    write(NEW)
    importlib.reload(module)
    assert module.x == "newer" and main.has_loaded_anew() and not main.has_loaded_anew()
    said = main.read()
    assert said["texts"] == {} and list(said["reloads"]) == ["hf_code"]
    main.write(said)
    assert not main.has_loaded_anew(), "it has the same"
    capsys.readouterr()

    write("print('once')\n" + OLD)
    main.write({"texts": {}, "reloads": {"hf_code": ("another time", False)}})
    assert module.x == "old" and main.reloads == {"hf_code": ("another time", False)}
    assert capsys.readouterr().out == ""

    write("1 / 0\n")
    main.write({"texts": {}, "reloads": {"hf_code": ("a third time", False)}})
    said = "the module hf_code, loaded anew, couldn't be carried over: division by zero"
    assert said in capsys.readouterr().err


def test_another_module_of_that_name(process, write, monkeypatch):
    main = process()
    write(OLD)
    first = load()
    del sys.modules["hf_code"]
    second = load()
    said = main.read()
    assert said["reloads"]["hf_code"][1]
    shell = types.SimpleNamespace(user_ns={"code": second, "first": first})
    monkeypatch.setattr(module_of_code, "get_ipython", lambda: shell)
    main.write({"texts": {}, "reloads": {"hf_code": ("another time", True)}})
    assert load() is not second and second is not first
    assert shell.user_ns == {"code": load(), "first": first}


def test_another_text_is_loaded(process, write, tmp_path):
    main = process()
    path = write(OLD)
    module = load()
    main.write({"texts": {"hf_code": (str(path), 5.0, b"x = 'carried'\n")}, "reloads": {}})
    assert module.x == "carried"
    assert main.read()["texts"]["hf_code"] == (str(path), 5.0, b"x = 'carried'\n")


def test_what_is_no_text_is_named(process, write, tmp_path):
    code = process()
    path = write(OLD)
    module = load()
    module.__spec__.loader = object()  # stands for that of an extension module
    code.imported(module)
    assert code.lost() == {}
    write(NEW)
    assert code.lost() == {"the module hf_code": module_of_code._REASON}
    assert code.read()["texts"] == {}
    path.unlink()
    assert code.lost() == {}, "nobody would load another one"


class Reloader:
    """Stands for that of %autoreload."""

    def __init__(self, enabled, times):
        self.enabled, self.modules_mtimes, self.failed = enabled, times, {}
        self.deduper_reloader = types.SimpleNamespace(source_by_modname={})


def test_autoreload_loads_by_itself(process, write, monkeypatch):
    code = process()
    path = write(OLD)
    load()
    times = {"hf_code": os.stat(path).st_mtime}
    reloader = Reloader(True, times)
    monkeypatch.setattr(module_of_code.reloader, "reloader", lambda: reloader)
    write(NEW)
    assert code.read()["texts"]["hf_code"][2] == OLD.encode(), "another process is to load it, too"
    reloader.failed[str(path)] = times["hf_code"] = os.stat(path).st_mtime
    assert code.read()["texts"]["hf_code"][2] == OLD.encode() and code.text("hf_code") == OLD
    reloader.failed.clear()
    times["hf_code"] = os.stat(path).st_mtime  # it has put the new text into the module
    code.read()
    reloader.enabled = False
    write("x = 'newest'\n")
    assert code.read()["texts"]["hf_code"][2] == NEW.encode()
    reloader.deduper_reloader.source_by_modname["hf_code"] = "x = 'between'\n"
    times["hf_code"] += 100  # another text, which is gone by now
    assert code.read()["texts"]["hf_code"][2] == b"x = 'between'\n"
    reloader.deduper_reloader.source_by_modname.clear()
    times["hf_code"] += 100
    assert code.read()["texts"] == {} and list(code.lost()) == ["the module hf_code"]
