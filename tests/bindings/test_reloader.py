"""Whether IPython's `%autoreload` is on, and at work (reloader.py)."""

import importlib
import sys
from unittest import mock

import pytest

from holdfast.worker.ipython import reloader


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    """The object that looks at files, where the notebook has loaded the extension."""
    monkeypatch.syspath_prepend(tmp_path)
    magics = importlib.import_module(reloader.EXTENSION).AutoreloadMagics()
    shell = mock.Mock(**{"magics_manager.registry": {"AutoreloadMagics": magics}})
    monkeypatch.setattr(reloader, "get_ipython", lambda: shell)
    yield magics._reloader
    for name in ("hf_asks", reloader.EXTENSION):
        sys.modules.pop(name, None)


def test_without_the_extension(monkeypatch):
    monkeypatch.delitem(sys.modules, reloader.EXTENSION, raising=False)
    assert reloader.magics() is None and reloader.reloader() is None
    assert not reloader.is_on() and not reloader.asks()


def test_it_is_found(at_work):
    assert reloader.reloader() is at_work and not reloader.is_on()
    at_work.enabled = True
    assert reloader.is_on()


def test_it_knows_its_own_imports(at_work, tmp_path, monkeypatch):
    (tmp_path / "hf_asks.py").write_text("X = 1\n")
    importlib.import_module("hf_asks")
    asked = []

    def watched(module):
        asked.append(reloader.asks())
        return module

    monkeypatch.setattr(sys.modules[reloader.EXTENSION], "reload", watched)
    at_work.modules_mtimes["hf_asks"] = 0.0
    at_work.deduper_reloader.enabled = False
    at_work.check(check_all=True)
    assert asked == [True] and not reloader.asks()
