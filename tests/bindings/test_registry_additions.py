"""What the notebook registers with IPython (libraries/IPython, registry_additions.py): read, and put into another process."""

import functools
import sys
import types

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.lib import pretty
from traitlets.config import Config

from holdfast.carry.patches import Deleted, MISSING
from holdfast.worker.settings import registry_additions as additions
from holdfast.worker.settings.library_state import LibraryState


@pytest.fixture
def shell():
    """Without a thread that writes the history."""
    yield InteractiveShell.instance(config=Config(HistoryAccessor={"enabled": False}))
    InteractiveShell.clear_instance()


def slots_of(shell):
    """How a process begins with it."""
    return LibraryState().begin(shell)


@pytest.fixture
def own_module(monkeypatch, tmp_path):
    """A module of the user's own, with a class and a function."""
    module = types.ModuleType("own_one")
    module.__file__ = str(tmp_path / "own_one.py")
    monkeypatch.setitem(sys.modules, "own_one", module)
    monkeypatch.setattr(additions, "own_modules", lambda: {"own_one": module})
    module.Rows = type("Rows", (), {"__module__": "own_one", "add": lambda self, line: line})
    module.Rows.add.__module__ = "own_one"
    return module


def mine(name="f", module="__main__"):
    """A function as the notebook, or a module, makes one."""

    def function(*arguments):
        return arguments

    function.__name__, function.__module__ = name, module
    return function


def test_lists_keep_their_order(shell):
    slot = slots_of(shell)["IPython: transformers of code"]
    begun = list(shell.input_transformers_cleanup)
    functions = [mine(name) for name in "abc"]
    shell.input_transformers_cleanup.extend(functions)
    shell.input_transformers_cleanup.insert(0, functions[0])
    found, there = slot.read(), list(shell.input_transformers_cleanup)
    for _ in range(2):
        slot.write(found)
        assert shell.input_transformers_cleanup == there
    slot.write(MISSING)
    assert shell.input_transformers_cleanup == begun and slot.read() is MISSING
    slot.write(found)
    assert shell.input_transformers_cleanup == there


def test_what_is_gone_is_gone_there(shell):
    slot = slots_of(shell)["IPython: formatters"]
    plain = shell.display_formatter.formatters["text/plain"]
    before = plain.pop(set)
    found = slot.read()
    assert found == {"types text/plain": [(set, Deleted)]}
    slot.write(MISSING)
    assert plain.type_printers[set] is before and slot.read() is MISSING
    slot.write(found)
    assert set not in plain.type_printers and slot.read() == found


def test_magics_of_own_modules_replace_those_of_a_repeated_load(shell, own_module):
    slots = slots_of(shell)
    magics, of_own = (slots["IPython: magics" + end] for end in ("", " of own modules"))
    carried, repeated = own_module.Rows(), own_module.Rows()
    shell.register_magic_function(repeated.add, "line", "row")
    assert magics.read() is MISSING
    of_own.write({"magics line": [("row", carried.add)]})
    assert shell.find_line_magic("row").__self__ is carried
    assert of_own.read() == {"magics line": [("row", carried.add)]}
    of_own.write(MISSING)
    assert shell.find_line_magic("row") is None


@pytest.mark.parametrize("kind", ["str_key", "re_key"])
def test_completers(shell, kind):
    slot = slots_of(shell)["IPython: completers and hooks"]
    assert slot.read() is MISSING
    shell.set_hook("complete_command", mine(), **{kind: "get"})
    shell.set_hook("clipboard_get", mine(), priority=0)
    found = slot.read()
    slot.write(MISSING)
    assert slot.read() is MISSING and len(shell.hooks.clipboard_get.chain) == 1
    chains = shell.strdispatchers["complete_command"]
    (chains.strs if kind == "str_key" else chains.regexs).clear()
    slot.write(found)
    assert slot.read() == found and shell.hooks.clipboard_get("x") == (shell, "x")


def test_printers_of_single_objects_follow_the_objects(shell):
    one, two = object(), object()
    shell.user_ns["one"] = one
    slot = slots_of(shell)["IPython: printers of single objects"]
    printers = shell.display_formatter.formatters["text/plain"].singleton_printers
    before = printers[id(None)]
    printers[id(one)] = printers[id(two)] = printer = mine()
    del printers[id(None)]
    found = slot.read()
    assert found == {"text/plain": [(one, printer), (None, Deleted)]}
    slot.write(MISSING)
    assert slot.read() is MISSING and printers[id(None)] is before
    slot.write({"text/plain": [(two, printer)], "": [(Ellipsis, printer)]})
    try:
        assert printers[id(two)] is printer and id(one) not in printers
        assert pretty._singleton_pprinters[id(Ellipsis)] is printer
    finally:
        slot.write(MISSING)


def test_who_has_made_an_entry(own_module):
    is_made = additions.is_notebooks_or_nobodys

    def counts(value):
        return any(map(is_made, additions._parts(value)))

    assert counts(mine()) and counts(len) and counts(own_module.Rows) and counts(own_module.Rows())
    assert counts((50, mine())) and counts(functools.partial(mine(), 1))
    assert counts(types.MethodType(mine(module="IPython"), own_module.Rows()))
    assert not counts(pretty.pretty) and not counts((50, pretty.pretty))
    assert not counts(functools.partial(pretty.pretty, 1))
