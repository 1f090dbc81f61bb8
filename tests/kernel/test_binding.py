"""However code gets at a variable, in a process of its own it is there; others stay undecoded.

Every way is tried in a fresh cell on the mapped run_mode against the same cell in the main worker.
"""

import os
import signal

import pytest
from waiting import until

from tests.conftest import kernel_starter

CELL = "%%execute_with_scorep --run=isolated\n"

SETUP = """
import json, operator, sys
import numpy as np, pandas as pd
value, rows = {'k': [1, 2]}, pd.DataFrame({'u': range(5)})
limit, text = 3, 'value'
class Holder:
    attribute = 7
    def get(self): return value
holder = Holder()
def reads(): return value['k']
def calls(): return reads()
def computed(name): return globals()[name]
handlers = {'read': reads}
partly = __import__('functools').partial(calls)
other = {'never': ['used']}
"""

# Expressions whose worth shows that the name was found.
WAYS = [
    "value",
    "eval('value')",
    "eval(text)",
    "eval('val' + 'ue')",
    "globals()['value']",
    "globals()[text]['k']",
    "{**globals()}['value']",
    "dict(globals())['value']",
    "locals()['value']",
    "vars()['value']",
    "[name for name in dir() if name == 'value']",
    "'value' in globals()",
    "__import__('__main__').value",
    "sys.modules['__main__'].value",
    "getattr(sys.modules['__main__'], text)",
    "operator.attrgetter('value.k' if 0 else 'value')(sys.modules['__main__'])",
    "len(rows.query('u < @limit'))",
    "len(rows.query('u < @value[\"k\"][1]'))",
    "rows.eval('u + @limit').sum()",
    "pd.eval('limit + 1')",
    "reads()",
    "calls()",
    "computed(text)",
    "handlers['read']()",
    "partly()",
    "holder.get()",
    "Holder().get()",
    "[value for _ in range(2)]",
    "(lambda: value)()",
    "f'{value}'",
    "'{value}'.format(**globals())",
    "'{value}'.format_map(globals())",
    "json.dumps(value)",
    "sys._getframe().f_globals['value']",
    "get_ipython().user_ns['value']",
    "get_ipython().ev('value')",
    "max(map(len, map(globals().get, ['value', 'text'])))",
]
STATEMENTS = {
    "exec": ("exec('seen = value')", "seen"),
    "import as": ("import __main__ as me", "me.value"),
    "star import": ("from helper_of_cells import *", "looks()"),
    "module of the user's": ("import helper_of_cells", "helper_of_cells.looks()"),
    "global in a function": ("def inner():\n    global value\n    return value", "inner()"),
    "class body": ("class Inner:\n    held = value", "Inner.held"),
    "default": ("def inner(x=value): return x", "inner()"),
    "magic": ("seen = %who_ls dict", "'value' in seen"),
    "line magic with a name": ("seen = !echo {limit}", "seen"),
    "timeit": ("%timeit -n1 -r1 value['k'].append(3)", "value['k'][:2]"),
    "walrus": ("(seen := value)", "seen"),
    "del": ("held = value\ndel value", "held"),
    "augmented": ("value |= {'m': 1}", "value['k']"),
}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """One kernel for all ways: none of them changes what the others see."""
    directory = tmp_path_factory.mktemp("binding")
    (directory / "helper_of_cells.py").write_text(
        "def looks():\n    import __main__\n    return __main__.value\n"
    )
    with kernel_starter(directory) as start:
        kernel = start()
        assert kernel.run(SETUP).status == "ok"
        yield kernel


def same_in_both(kernel, code):
    recorded, plain = kernel.run(CELL + code), kernel.run(code)
    assert recorded.cost["run"] == "isolated"
    assert recorded.status == plain.status == "ok", (code, recorded.content, plain.content)
    assert recorded.result == plain.result is not None, code
    return recorded


@pytest.mark.parametrize("way", WAYS)
def test_an_expression_finds_the_variable(notebook, way):
    same_in_both(notebook, way)


@pytest.mark.parametrize("what", STATEMENTS)
def test_a_statement_finds_the_variable(notebook, what):
    statement, expression = STATEMENTS[what]
    notebook.run("value = {'k': [1, 2]}")
    recorded = notebook.run(f"{CELL}{statement}\n{expression}")
    assert recorded.status == "ok", recorded.content
    notebook.run("value = {'k': [1, 2]}")
    plain = notebook.run(f"{statement}\n{expression}")
    assert recorded.result == plain.result is not None
    notebook.run("value = {'k': [1, 2]}")


@pytest.mark.parametrize("way", ["value", "reads()", "handlers['read']()", "limit + 1"])
def test_what_is_not_named_is_not_decoded(notebook, way):
    notebook.run("value = {'k': [1, 2]}")
    cost = notebook.run(CELL + way).cost
    assert "other" not in cost.get("reason", "") and cost["names_skipped"] >= 1, cost


def test_the_namespace_is_an_exact_dict_in_its_order(notebook):
    code = "[type(globals()).__name__, [n for n in globals() if not n.startswith('_')][:30]]"
    same_in_both(notebook, code)


REMADE = """
import zlib
class {0}:
    def __getstate__(self): return {{'worth': 5}}
    def __setstate__(self, state):
        warnings.warn('again')
        self.__dict__.update(state, unit=unit(), sum=zlib.crc32(b''))
    def scaled(self): return self.unit * factor
factor = 10
def unit(): return 3
{1} = {0}()
"""


def test_values_are_remade_by_their_classes_own_code(isolated_kernel):
    """It finds the notebook's variables, also those that came with it. What it warns of is not the
    cell's, and doesn't make it fail."""
    kernel = isolated_kernel
    kernel.run("import os, warnings" + REMADE.format("InProcess", "in_main"))
    for _ in range(2):
        outcome = kernel.run(CELL + "in_main.worth, in_main.unit, warnings.filters[0][0]")
        assert outcome.result.startswith("(5, 3, ") and not outcome.stream("stderr")
        kernel.run("warnings.simplefilter('error')")
    assert outcome.result == "(5, 3, 'error')"
    kernel.run("warnings.resetwarnings()")
    assert kernel.run(CELL + "in_main.scaled()").result == "30"
    kernel.run(CELL + REMADE.format("InCell", "in_cell"))
    assert kernel.run("in_cell.worth, in_cell.unit, in_cell.sum").result == "(5, 3, 0)"
    main = int(kernel.run("os.getpid()").result)
    os.kill(main, signal.SIGKILL)
    until(lambda: kernel.run("os.getpid()").result not in (None, str(main)))
    assert kernel.run("in_cell.unit, in_main.sum").result == "(3, 0)"
