"""Modules of the user's own that look into the notebook are found, whatever imports them."""

import sys

import pytest
from holdfast.worker.analysis.own_modules import OwnModules, imported_look_out


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A function that writes modules into a directory on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def reason(source):
    return imported_look_out(compile(source, "<cell>", "exec"))


LOOKS = "def look():\n    import __main__\n    return __main__.x\n"


def test_an_import_of_one_that_looks(modules):
    modules(hf_looks=LOOKS)
    assert "hf_looks" in reason("import hf_looks")
    assert "hf_looks" in reason("from hf_looks import look")
    assert "hf_looks" not in sys.modules  # found without importing it


def test_an_import_through_another(modules):
    modules(hf_first="from hf_second import *\n", hf_second="import hf_third", hf_third=LOOKS)
    assert "hf_third" in reason("import hf_first")


def test_imports_in_a_circle_end(modules):
    modules(hf_one="import hf_two", hf_two="import hf_one")
    assert reason("import hf_one") == ""


def test_one_that_minds_its_own(modules):
    modules(hf_quiet="if __name__ == '__main__': print(1)\ndef f(x): return x\n")
    assert reason("import hf_quiet, json, os.path") == ""


def test_a_name_that_is_no_import(modules):
    modules(hf_looks=LOOKS)
    assert reason("import json\nhf_looks = json.hf_looks") == ""


def test_many_names_before_the_import(modules):
    modules(hf_looks=LOOKS)
    many = "\n".join(f"name_{i} = 0" for i in range(400))
    assert "hf_looks" in reason(f"{many}\nimport hf_looks")


def test_what_is_not_there(modules):
    assert reason("import hf_is_nowhere") == ""


def test_what_was_imported_since(modules):
    modules(hf_looks=LOOKS, hf_quiet="")
    own = OwnModules()
    import hf_quiet  # noqa: F401

    assert own.look() == ""
    import hf_looks  # noqa: F401

    assert "hf_looks" in own.look()
    assert "hf_looks" in own.look()  # it stays


def test_others_were_taken_out_meanwhile(modules):
    modules(hf_looks=LOOKS, hf_quiet="")
    import hf_quiet  # noqa: F401

    own = OwnModules()
    del sys.modules["hf_quiet"]  # the last one, and as many as before
    import hf_looks  # noqa: F401

    assert "hf_looks" in own.look()
