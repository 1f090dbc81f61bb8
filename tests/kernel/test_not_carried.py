"""What a clean process doesn't have and nobody but the notebook's own process has is named (docs/not-carried.md)."""

import pytest

CELL = "%%execute_with_scorep --run=isolated\n"
SETTINGS = {
    "functions of IPython's shell": "get_ipython().showtraceback = lambda *args, **named: None",
    "overloads (typing.overload)": "import typing\n@typing.overload\ndef f(x: int): ...\ndef f(x): return x",
    "functions that follow new threads": "import threading; threading.settrace(lambda *args: None)",
    "logging's factory and class of loggers": "import logging\nclass L(logging.Logger): pass\nlogging.setLoggerClass(L)",
    "attributes and classes of loggers": "import logging; logging.getLogger('mine').info = lambda *args: None",
}


@pytest.mark.fresh
def test_settings_are_named_once(kernel):
    for source in SETTINGS.values():
        assert kernel.run(source).status == "ok"
    said = kernel.run(CELL + "1 + 1").stream("stderr")
    assert [name for name in SETTINGS if name not in said] == []
    assert "own process alone has that" not in kernel.run(CELL + "1 + 1").stream("stderr")
