"""Options of IPython's parts, from one process's shell to another's (libraries/IPython/options.py)."""

import pickle

import pytest
from holdfast.libraries.IPython import options
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.ipstruct import Struct
from traitlets.config import Config


@pytest.fixture
def make():
    """A function that makes the shell of another process."""
    shells = []

    def begin():
        shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
        shells.append(shell)
        return shell

    yield begin
    for shell in shells:
        shell.logger.logfile = None
        shell.history_manager.end_session()


@pytest.fixture
def carry(make):
    """A function that gives one shell's options to another."""

    def apply(source, target):
        new = pickle.loads(pickle.dumps(options.of_parts(source)))
        options.set_of_parts(target, new)

    return apply


def test_what_nobody_has_set_is_not_there(make):
    found = options.of_parts(make())
    assert found.pop("").items() >= {"call_pdb": False, "config": {}, "meta": {}}.items()
    assert found.keys() <= {"HistoryManager"}


def test_options_of_parts_there_and_back(make, carry):
    one, other = make(), make()
    text = one.display_formatter.formatters["text/plain"]
    text.max_width, one.Completer.greedy, one.call_pdb = 40, True, True
    one.display_formatter.active_types = ["text/plain"]
    carry(one, other)
    formatters = other.display_formatter.formatters
    assert (formatters["text/plain"].max_width, other.Completer.greedy) == (40, True)
    assert other.call_pdb and not formatters["text/html"].enabled
    text.max_width, one.Completer.greedy, one.call_pdb = 79, False, False
    carry(one, other)
    assert (formatters["text/plain"].max_width, other.Completer.greedy) == (79, False)
    assert not other.call_pdb


def test_what_a_formatter_does_for_a_type_is_no_option(make, carry):
    """One that was looked at and is empty was set in the other process, whose figures were texts then."""
    one, other = make(), make()
    assert one.display_formatter.formatters["image/png"].type_printers == {}
    printers = other.display_formatter.formatters["image/png"].type_printers
    printers[complex] = str
    carry(one, other)
    assert other.display_formatter.formatters["image/png"].type_printers is printers
    assert printers == {complex: str}


def test_a_part_that_is_made_when_it_is_asked_for(make, carry):
    one, other = make(), make()
    one.run_line_magic("config", "LoggingMagics.quiet = True")
    carry(one, other)
    assert other.magics_manager.registry["LoggingMagics"].quiet
    assert other.config["LoggingMagics"]["quiet"]


def test_the_configuration_stays_the_object_that_it_is(make, carry):
    one, other = make(), make()
    config = other.config
    one.config.Tool.size, one.config.Tool.parts, one.config.Deep.Deeper.n = 5, ["a"], 1
    assert one.config.Nobody.asked is not None  # made by asking
    carry(one, other)
    assert other.config is config and config.Tool == {"size": 5, "parts": ["a"]}
    assert config.Deep.Deeper.n == 1 and "Nobody" not in config
    one.config.Tool.parts.append("b")
    assert config.Tool.parts == ["a"]
    del one.config.Tool.size, one.config["Deep"]
    carry(one, other)
    assert config.Tool == {"parts": ["a", "b"]} and not config.Deep.Deeper
    assert config.HistoryManager.hist_file == ":memory:"


def test_notes_of_the_shell(make, carry):
    one, other = make(), make()
    one.meta.doctest_mode, one.meta.other = Struct(mode=True), object()
    carry(one, other)
    assert other.meta == {"doctest_mode": {"mode": True}} and other.meta.doctest_mode.mode
    one.meta.doctest_mode.mode = False
    assert other.meta.doctest_mode.mode
    carry(one, other)
    assert not other.meta.doctest_mode.mode
    del one.meta["doctest_mode"]
    carry(one, other)
    assert not other.meta


def test_the_log_goes_on_in_the_same_file(make, carry, tmp_path):
    one, other = make(), make()
    one.logger.logstart(str(tmp_path / "log"), "head\n", "over", log_output=True)
    carry(one, other)
    other.logger.log_write("two\n")
    carry(other, one)
    one.logger.log_write("three\n")
    assert (tmp_path / "log").read_text() == "head\ntwo\nthree\n"
    assert other.logger.logmode == "over" and other.logger.log_output
    one.logger.switch_log(False)
    carry(one, other)
    other.logger.log_write("four\n")
    assert (tmp_path / "log").read_text() == "head\ntwo\nthree\n"
    other.logger.logstop()
    carry(other, one)
    assert one.logger.logfile is None and not one.logger.log_active
