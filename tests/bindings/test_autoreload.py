"""`%autoreload` of IPython's, as its settings are carried (autoreload.py)."""

import importlib
import os
import sys
from unittest import mock

import pytest

from holdfast.worker.ipython import autoreload, reloader
from holdfast.worker.settings.own_code import own_code


@pytest.fixture
def module(tmp_path, monkeypatch):
    """One of the user's own, in a process whose notebook has loaded the extension, which is on."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "hf_reloads.py"
    path.write_text("def f(): return 'old'\n")
    os.utime(path, (1e9, 1e9))
    magics = importlib.import_module(reloader.EXTENSION).AutoreloadMagics()
    magics._reloader.enabled = magics._reloader.check_all = True
    shell = mock.Mock(**{"magics_manager.registry": {"AutoreloadMagics": magics}})
    monkeypatch.setattr(reloader, "get_ipython", lambda: shell)
    monkeypatch.setattr(autoreload, "_first_times", {})
    module = importlib.import_module("hf_reloads")
    yield module
    for name in ("hf_reloads", reloader.EXTENSION):
        del sys.modules[name]


def rewrite(module, time, text="def f(): return {!r}\n"):
    with open(module.__file__, "w") as file:
        file.write(text.format(time))
    os.utime(module.__file__, (time, time))


def files():
    """What it knows of each module's, that another process needs."""
    return {name: autoreload.File(*parts) for name, parts in autoreload.read()["files"].items()}


def test_without_the_extension(monkeypatch):
    monkeypatch.delitem(sys.modules, reloader.EXTENSION, raising=False)
    autoreload.note_imported()


def test_the_times_that_another_process_needs(module):
    autoreload.note_imported()
    assert files() == {}
    rewrite(module, 1e9 + 5)
    assert files()["hf_reloads"].time == 1e9, "it has to load the file"
    reloader.reloader().check()
    assert module.f() == 1e9 + 5
    assert files()["hf_reloads"] == (1e9 + 5, "def f(): return 1000000005.0\n", False)


def test_a_file_that_could_not_be_loaded(module):
    autoreload.note_imported()
    rewrite(module, 1e9 + 5, "def f(: return 1\n")
    reloader.reloader().check()
    assert module.f() == "old" and files()["hf_reloads"].has_failed


def test_a_process_that_has_loaded_an_older_file_looks(module):
    said = autoreload.read()
    autoreload.write({**said, "files": {"hf_reloads": (1e9, None, False)}})
    rewrite(module, 1e9 + 5)
    autoreload.write({**said, "enabled": False, "files": {"hf_reloads": (1e9 + 5, None, False)}})
    assert module.f() == 1e9 + 5 and not reloader.is_on()
    rewrite(module, 1e9 + 15)
    autoreload.write({**said, "enabled": False, "files": {"hf_reloads": (1e9 + 15, None, False)}})
    assert module.f() == 1e9 + 5, "it is off"


def test_a_module_that_was_loaded_from_an_older_text(module):
    """Its process has read the newer file already, which it would compare with itself."""
    here = reloader.reloader()
    autoreload.note_imported()
    said = autoreload.read()
    rewrite(module, 1e9 + 5)
    here.modules_mtimes["hf_reloads"] = 1e9 + 5
    here.deduper_reloader.source_by_modname["hf_reloads"] = "def f(): return 1000000005.0\n"
    file = (1e9, "def f(): return 'old'\n", False)
    autoreload.write({**said, "files": {"hf_reloads": file}})
    assert module.f() == "old"
    here.check()
    assert module.f() == 1e9 + 5


def test_the_text_that_a_module_was_loaded_from(module, monkeypatch):
    monkeypatch.setattr(own_code, "text", {"hf_reloads": "its text"}.get)
    autoreload.note_imported()
    assert reloader.reloader().deduper_reloader.source_by_modname["hf_reloads"] == "its text"


def test_a_module_that_is_still_to_be_imported_is_as_old(module):
    autoreload.write({**autoreload.read(), "files": {"hf_not_yet": (123.0, "text", False)}})
    assert reloader.reloader().modules_mtimes["hf_not_yet"] == 123.0


@pytest.mark.parametrize("arguments", ["", " -p", " -l", " -p -l", " --full", " -p --full"])
def test_the_arguments_of_its_command(module, arguments):
    here = reloader.reloader()
    silent = autoreload.read()
    reloader.magics().autoreload("2" + arguments)
    said = autoreload.read()
    assert said["arguments"] == arguments
    autoreload.write(silent)
    assert autoreload.read()["arguments"] == ""
    autoreload.write(said)
    assert autoreload.read() == said and here.enabled and here.check_all
