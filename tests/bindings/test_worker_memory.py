"""What a process remembers beside its variables: results, inputs, sources, how it shows things."""

import os
import re
import signal

import effort
import pytest
from test_worker_cell import kernel  # noqa: F401

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def traceback(answer):
    return COLOURS.sub("", "\n".join(answer.content["traceback"]))


# ---- sources


def test_a_function_of_another_cell_has_its_source(kernel):  # noqa: F811
    kernel.plain("def below(x):\n    return 1 / x  # made in the main worker")
    failed = kernel.instrumented("def above(x):\n    return below(x)  # made elsewhere\nabove(0)")
    assert "----> 2     return 1 / x  # made in the main worker" in traceback(failed)
    for again in (kernel.plain("above(0)"), kernel.instrumented("above(0)")):
        assert "----> 2     return 1 / x  # made in the main worker" in traceback(again)
        assert "----> 2     return below(x)  # made elsewhere" in traceback(again)
    sources = (
        "import inspect; inspect.getsource(above).splitlines()[1], inspect.getsource(below)[:9]"
    )
    assert kernel.instrumented(sources).result == kernel.plain(sources).result
    assert "made elsewhere" in kernel.plain(sources).result


def test_sources_of_cells_without_a_number(kernel):  # noqa: F811
    """IPython's list of inputs doesn't have them, so that later numbers don't match."""
    kernel.plain("def quiet(x):\n    return 1 / x  # said quietly", silent=True)
    kernel.plain("def loud(x):\n    return quiet(x)  # said aloud")
    shown = traceback(kernel.instrumented("loud(0)"))
    assert "return 1 / x  # said quietly" in shown
    assert "return quiet(x)  # said aloud" in shown


def test_a_new_main_worker_has_the_sources(kernel):  # noqa: F811
    kernel.plain("def f(x):\n    return 1 / x  # kept")
    kernel.commit()
    os.kill(kernel.main.pid, signal.SIGKILL)
    kernel.frontend.exited(kernel.main)
    kernel.main = kernel.frontend.fork("main")
    assert "return 1 / x  # kept" in traceback(kernel.plain("f(0)"))


# ---- results


def test_the_last_results(kernel):  # noqa: F811
    for number in (10, 20, 30):
        kernel.plain(str(number))
    assert kernel.instrumented("unread = 1").status == "ok"
    assert kernel.plain("_, __, ___").result == "(30, 20, 10)"
    assert kernel.instrumented("_[0], __, ___").result == "(30, 30, 20)"
    answer = kernel.instrumented("_i, _i2, _5[1]")
    assert answer.result == "('_[0], __, ___', '20', 20)"
    assert kernel.plain("_[1], __").result == "('20', (30, 30, 20))"


def test_a_last_result_that_is_not_carried(kernel):  # noqa: F811
    kernel.plain("5")
    kernel.plain("(i for i in 'ab')")
    answer = kernel.instrumented("_")
    assert answer.content["ename"] == "NotCarriedError"
    assert "generator" in answer.content["evalue"]
    assert kernel.instrumented("__ + 1").result == "6"
    assert kernel.plain("_, next(__)").result == "(6, 'a')"


def test_a_last_result_that_was_lost(kernel):  # noqa: F811
    kernel.plain("5")
    answer = kernel.instrumented("(i for i in 'ab')")
    assert "_2 (generator" in answer.text("stderr")
    assert kernel.plain("_").content["ename"] == "NameError"
    assert kernel.plain("__").result == "5"


def test_the_context_of_decimal(kernel):  # noqa: F811
    kernel.plain(
        "import decimal; from decimal import *; here = getcontext(); here.prec = 6\n"
        "here.rounding = ROUND_UP; here.traps[Inexact] = True; here.clear_flags()"
    )
    shown = "getcontext().prec, getcontext().traps[Inexact], getcontext().flags[Inexact]"
    assert kernel.instrumented(shown).result == "(6, True, False)"
    kernel.instrumented("getcontext().traps[Inexact] = False; third = Decimal(1) / 3")
    assert kernel.plain("third").result == "Decimal('0.333334')"
    assert kernel.plain(shown).result == "(6, False, True)"
    assert kernel.plain("here is getcontext()").result == "True"


# ---- how things are shown


def test_precision(kernel):  # noqa: F811
    kernel.plain("%precision 3")
    assert kernel.instrumented("1 / 3").result == "0.333"
    kernel.instrumented("%precision 2")
    assert kernel.plain("1 / 3").result == "0.33"
    kernel.plain("%precision")
    assert kernel.instrumented("1 / 4 + 1 / 3").result == "0.5833333333333333"


def test_settings_of_numpy_and_pandas(kernel):  # noqa: F811
    kernel.import_in_server("numpy")
    kernel.plain("import numpy as np; np.set_printoptions(precision=2); row = np.array([1 / 3])")
    assert kernel.instrumented("row").result == "array([0.33])"
    kernel.instrumented("np.set_printoptions(precision=4)")
    assert kernel.plain("row").result == "array([0.3333])"
    kernel.import_in_server("pandas")
    kernel.plain("import pandas as pd; pd.options.display.max_rows = 4")
    look = "pd.get_option('display.max_rows'), pd.options.display.html.border"
    assert kernel.instrumented(look).result == "(4, 1)"
    kernel.instrumented("pd.set_option('display.html.border', 2)")
    assert kernel.plain(look).result == "(4, 2)"
    kernel.plain("table = pd.DataFrame({'a': range(9)})")
    assert kernel.instrumented("table").result == kernel.plain("table").result


def test_traceback_mode(kernel):  # noqa: F811
    kernel.plain("%xmode Minimal")
    assert traceback(kernel.instrumented("1 / 0")).strip() == "ZeroDivisionError: division by zero"
    kernel.instrumented("%xmode Context")
    assert "----> 1" in traceback(kernel.plain("1 / 0"))


def test_directories(kernel, tmp_path):  # noqa: F811
    (tmp_path / "sub").mkdir()
    kernel.plain("%cd -q sub")
    assert kernel.instrumented("%cd -q -\nimport os; os.path.basename(os.getcwd())").result == (
        repr(tmp_path.name)
    )
    assert kernel.plain("[os.path.basename(str(d)) for d in _dh][1:]").result == (
        repr(["sub", tmp_path.name])
    )
    kernel.plain("%cd -q -")
    assert kernel.plain("os.path.basename(os.getcwd())").result == "'sub'"


def pictures(answer):
    return [
        mime
        for kind in ("display_data", "execute_result")
        for content in answer.messages(kind)
        for mime in content["data"]
        if mime.startswith("image/")
    ]


def test_a_figure_of_another_cell_is_a_picture(kernel):  # noqa: F811
    pytest.importorskip("matplotlib_inline")
    kernel.import_in_server("matplotlib.pyplot")
    first = kernel.plain("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(1, 1))")
    assert pictures(first) == ["image/png"]
    assert pictures(kernel.instrumented("fig")) == ["image/png"]
    kernel.plain("%config InlineBackend.figure_formats = ['svg']")
    assert pictures(kernel.instrumented("ax.set_title('x'); fig")) == ["image/svg+xml"]
    assert kernel.instrumented("%config InlineBackend.figure_formats = ['png']").status == "ok"
    assert pictures(kernel.plain("fig")) == ["image/png"]
    assert pictures(kernel.instrumented("plt.plot([1, 2])")) == ["image/png"]
    assert pictures(kernel.plain("plt.plot([1, 2])")) == ["image/png"]


def test_rc_params(kernel):  # noqa: F811
    pytest.importorskip("matplotlib")
    kernel.import_in_server("matplotlib")
    kernel.plain("import matplotlib\nrc = matplotlib.rcParams\nrc['font.size'] = 6")
    look = "import matplotlib; rc = matplotlib.rcParams\nrc['font.size'], rc['axes.grid']"
    assert kernel.instrumented(look).result == "(6.0, False)"
    kernel.instrumented(
        "import matplotlib.style; matplotlib.style.use('ggplot'); matplotlib.rcParams['font.size'] = 7\n"
        "colour = matplotlib.rcParams['axes.prop_cycle'].by_key()['color'][0]"
    )
    assert kernel.plain(look).result == "(7.0, True)"
    assert kernel.plain("rc['axes.prop_cycle'].by_key()['color'][0] == colour").result == "True"
    kernel.plain("matplotlib.rcdefaults()")
    assert kernel.instrumented(look).result == "(10.0, False)"


def test_rc_params_wait_for_the_import(kernel):  # noqa: F811
    """A cell that doesn't use Matplotlib doesn't import it, and hands its settings on."""
    pytest.importorskip("matplotlib")
    kernel.instrumented("import matplotlib; matplotlib.rcParams['font.size'] = 6; del matplotlib")
    loaded = "import sys; any(name in sys.modules for name in ('mat' + 'plotlib',))"
    assert kernel.instrumented(loaded).result == "False"
    assert kernel.plain(loaded).result == "False"
    look = "import importlib.util; importlib.util.find_spec('matplotlib').name\n"
    size = look + "import matplotlib; matplotlib.rcParams['font.size']"
    assert kernel.instrumented(size).result == "6.0"
    assert kernel.plain(size).result == "6.0"


def test_a_backend_without_pictures(kernel):  # noqa: F811
    """Chosen before the inline one was imported: a cell must not show what plain cells don't."""
    pytest.importorskip("matplotlib_inline")
    kernel.import_in_server("matplotlib.pyplot")
    first = kernel.plain(
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "fig, ax = plt.subplots(figsize=(1, 1))"
    )
    assert pictures(first) == []
    for _ in range(2):
        outcome = kernel.instrumented("ax.set_title('x'); plt.get_backend(), plt.gcf() is fig")
        assert (outcome.result.lower(), pictures(outcome)) == ("('agg', true)", [])


# ---- the end


@pytest.mark.parametrize(
    ("head", "code"),
    effort.in_turn(["", "# %%execute_with_scorep\n"], ["quit()", "exit", "exit()", "quit"]),
)
def test_leaving(kernel, head, code):  # noqa: F811
    answer = kernel.instrumented(head + code)
    assert answer.status == "ok" and answer.result is None
    assert [payload["source"] for payload in answer.content["payload"]] == ["ask_exit"]


def test_a_longer_cell_has_no_calls_without_parentheses(kernel):  # noqa: F811
    answer = kernel.instrumented("# %%execute_with_scorep\n1\nexit")
    assert "Autocall" in answer.result and not answer.content.get("payload")
