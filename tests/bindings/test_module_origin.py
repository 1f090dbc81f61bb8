"""Which modules are of libraries, by where their files lie."""

import os
import sysconfig

import pytest

from holdfast.worker import module_origin

HERE = sysconfig.get_paths()["purelib"]


@pytest.mark.parametrize("head", ["", "pandas/core/"])
def test_it_looks_once_for_each_file(head, monkeypatch):
    """At the first commit after an import it is asked about each new module: 5,500 calls of the system once."""
    looked = []
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: looked.append(path) or lstat(path))
    module_origin._real_directory.cache_clear()
    module_origin.is_library(f"{HERE}/{head}first.py")
    looked.clear()
    assert all(module_origin.is_library(f"{HERE}/{head}{number}.py") for number in range(100))
    assert len(looked) == 100


def test_links_are_followed(tmp_path, monkeypatch):
    """Of a file and of its directory; and what has no directory lies in that of the process."""
    (tmp_path / "packages").symlink_to(HERE)
    (tmp_path / "linked.py").symlink_to(os.__file__)
    (tmp_path / "own.py").touch()
    assert module_origin.is_library(str(tmp_path / "packages" / "some.py"))
    assert module_origin.is_library(str(tmp_path / "linked.py"))
    assert not module_origin.is_library(str(tmp_path / "own.py"))
    monkeypatch.chdir(tmp_path)
    assert not module_origin.is_library("own.py")
    monkeypatch.chdir(HERE)
    assert module_origin.is_library("own.py")


def test_holdfast_is_one_wherever_it_lies():
    assert module_origin.is_library(module_origin.__file__)
    assert module_origin._HOLDFAST in {
        root.rstrip(os.sep) for root in module_origin._import_roots(())
    }
