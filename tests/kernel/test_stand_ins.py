"""Our classes under ipykernel's and IPython's names: who looks for one by its name finds it."""

import pytest

HEADS = ["", "%%execute_with_scorep --run=forked\n", "%%execute_with_scorep --run=isolated\n"]
NAMES = """
import importlib, pickle, sys
kernel = get_ipython().kernel
found = [type(one) for one in (get_ipython(), get_ipython().history_manager, kernel, kernel._stdout)]
homes = [one for name, one in list(sys.modules.items()) if name.partition(".")[0] in ("IPython", "ipykernel")]
seen = {value for one in homes for value in vars(one).values() if isinstance(value, type)}
wrong = [
    one for one in seen if one.__module__.partition(".")[0] in ("IPython", "ipykernel")
    and "<locals>" not in one.__qualname__ and vars(sys.modules[one.__module__]).get(one.__name__, one) is not one
]
"""


@pytest.mark.parametrize("head", HEADS)
def test_dill_saves_and_loads_the_session(shared_kernel, head):
    pytest.importorskip("dill")
    assert shared_kernel.run("import dill; a = [3]; b = a").status == "ok"
    outcome = shared_kernel.run(head + "dill.dump_session('session')")
    assert outcome.status == "ok", outcome.content["evalue"]
    assert (
        shared_kernel.run("del a; b = 0; dill.load_session('session'); a, b is a").result
        == "([3], True)"
    )


def test_each_class_is_found_by_its_name(shared_kernel):
    assert shared_kernel.run(NAMES).status == "ok"
    assert shared_kernel.run(
        "[pickle.loads(pickle.dumps(one)) is one for one in found], wrong"
    ).result == ("([True, True, True, True], [])")
