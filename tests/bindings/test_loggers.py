"""logging: what is set is state of the process, loggers go by name, handlers by value."""

import logging

import pytest

pytestmark = pytest.mark.fresh

CELL = "%%execute_with_scorep --run=isolated\n"


def test_levels_are_carried_both_ways(kernel):
    kernel.run(
        "import logging\nlog = logging.getLogger('mine'); log.setLevel('INFO')\n"
        "logging.getLogger().setLevel('ERROR'); logging.getLogger('quiet').disabled = True"
    )
    outcome = kernel.run(
        CELL + "seen = log.level, logging.root.level, logging.getLogger('quiet').disabled\n"
        "log.setLevel('DEBUG'); logging.getLogger('new').propagate = False\n"
        "logging.getLogger('quiet').disabled = False; logging.disable(10)\n"
        "seen, log is logging.getLogger('mine')"
    )
    assert outcome.result == "((20, 40, True), True)"
    outcome = kernel.run(
        "log.level, logging.getLogger('new').propagate, logging.getLogger('quiet').disabled, "
        "logging.root.manager.disable, log is logging.getLogger('mine')"
    )
    assert outcome.result == "(10, False, False, 10, True)"


def test_handlers_in_variables(kernel, tmp_path):
    kernel.run(
        "import logging\nlog = logging.getLogger('mine')\nshown = logging.StreamHandler()\n"
        "filed = logging.FileHandler('out.log')\n"
        "filed.setFormatter(logging.Formatter('%(levelname)s: %(message)s')); log.addHandler(filed)\n"
        "log.warning('home')"
    )
    outcome = kernel.run(
        CELL + "log.addHandler(filed); log.addHandler(shown); log.warning('cell')\n"
        "shown.lock is not None"
    )
    assert outcome.result == "True" and "cell" in outcome.stream("stderr")
    kernel.run("log.warning('again')")
    text = (tmp_path / "out.log").read_text()
    assert text == "WARNING: home\nWARNING: cell\nWARNING: again\n"


def test_what_is_shown_in_the_notebook_is_shown_by_cells(isolated_kernel):
    isolated_kernel.run(
        "import logging, sys\n"
        "logging.basicConfig(level='INFO', format='%(name)s: %(message)s', stream=sys.stdout)\n"
        "kept = logging.root.handlers[0]; log = logging.getLogger('mine')"
    )
    outcome = isolated_kernel.run(
        CELL + "log.info('cell')\nown = logging.StreamHandler()\n"
        "own.setFormatter(logging.Formatter('[{message}]', '%d', '{')); own.setLevel('ERROR')\n"
        "log.addHandler(own)"
    )
    assert outcome.stream("stdout").startswith("mine: cell\n")
    outcome = isolated_kernel.run("log.error('plain'); logging.root.handlers == [kept]")
    assert outcome.stream("stdout") == "mine: plain\n"
    assert outcome.stream("stderr") == "[plain]\n" and outcome.result == "True"
    isolated_kernel.run(
        CELL + "logging.basicConfig(level='ERROR', force=True); log.handlers.clear()"
    )
    outcome = isolated_kernel.run("log.warning('no'); log.error('yes'); len(logging.root.handlers)")
    assert outcome.stream("stderr") == "ERROR:mine:yes\n" and outcome.result == "1"
    assert not outcome.stream("stdout")


def test_what_is_as_it_was_made_is_not_reported():
    from holdfast.libraries.standard import loggers

    before = loggers.levels()
    logger = logging.getLogger("holdfast.test.named")
    assert loggers.levels() == before
    logger.setLevel("INFO")
    assert loggers.levels()["holdfast.test.named"] == (20, True, False)
    loggers.set_levels(before)
    assert logger.level == logging.NOTSET and loggers.levels() == before
