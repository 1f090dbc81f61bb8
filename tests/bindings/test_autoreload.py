"""`%autoreload` of IPython's, as its settings are carried (autoreload.py)."""

import importlib
import os
import sys
from unittest import mock

import pytest

from holdfast.worker.settings import autoreload


@pytest.fixture
def module(tmp_path, monkeypatch):
    """One of the user's own, in a process whose notebook has loaded the extension, which is on."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "hf_reloads.py"
    path.write_text("def f(): return 'old'\n")
    os.utime(path, (1e9, 1e9))
    magics = importlib.import_module(autoreload.EXTENSION).AutoreloadMagics()
    magics._reloader.enabled = magics._reloader.check_all = True
    shell = mock.Mock(**{"magics_manager.registry": {"AutoreloadMagics": magics}})
    monkeypatch.setattr(autoreload, "get_ipython", lambda: shell)
    monkeypatch.setattr(autoreload, "_first_times", {})
    module = importlib.import_module("hf_reloads")
    yield module
    for name in ("hf_reloads", autoreload.EXTENSION):
        del sys.modules[name]


def rewrite(module, time):
    with open(module.__file__, "w") as file:
        file.write(f"def f(): return {time!r}\n")
    os.utime(module.__file__, (time, time))


def test_without_the_extension(monkeypatch):
    monkeypatch.delitem(sys.modules, autoreload.EXTENSION, raising=False)
    assert autoreload.reloader() is None and not autoreload.is_on() and not autoreload.asks()
    autoreload.note_imported()


def test_the_times_that_another_process_needs(module):
    autoreload.note_imported()
    assert autoreload.is_on() and autoreload.read()["modules_mtimes"] == {}
    rewrite(module, 1e9 + 5)
    assert autoreload.read()["modules_mtimes"] == {"hf_reloads": 1e9}, "it has to load the file"
    autoreload.reloader().check()
    assert module.f() == 1e9 + 5
    assert autoreload.read()["modules_mtimes"] == {"hf_reloads": 1e9 + 5}, "it has loaded it"


def test_a_process_that_has_loaded_an_older_file_looks(module, capsys):
    said = autoreload.read()
    rewrite(module, 1e9 + 5)
    autoreload.write({**said, "modules_mtimes": {"hf_reloads": 1e9}})
    assert module.f() == "old"
    autoreload.write({**said, "enabled": False, "modules_mtimes": {"hf_reloads": 1e9 + 5}})
    assert module.f() == 1e9 + 5 and not autoreload.is_on()
    rewrite(module, 1e9 + 15)
    autoreload.write({**said, "enabled": False, "modules_mtimes": {"hf_reloads": 1e9 + 15}})
    assert module.f() == 1e9 + 5, "it is off"


def test_a_module_that_is_still_to_be_imported_is_as_old(module):
    autoreload.write({**autoreload.read(), "modules_mtimes": {"hf_not_yet": 123.0}})
    assert autoreload.reloader().modules_mtimes["hf_not_yet"] == 123.0


def test_it_knows_its_own_imports(module, monkeypatch):
    asked = []
    monkeypatch.setattr(
        autoreload.reloader().deduper_reloader, "maybe_reload_module", lambda m: False
    )
    rewrite(module, 1e9 + 5)
    autoreload.note_imported()
    reload = importlib.reload

    def watched(one):
        asked.append(autoreload.asks())
        return reload(one)

    monkeypatch.setattr(sys.modules[autoreload.EXTENSION], "reload", watched)
    rewrite(module, 1e9 + 10)
    autoreload.reloader().check()
    assert asked == [True] and not autoreload.asks()
