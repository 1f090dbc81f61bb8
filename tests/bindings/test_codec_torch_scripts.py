"""TorchScript: modules and functions through the store."""

import pytest
from needed import needed
from store_process import hand_over

needed("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LIBRARIES = ("torch",)
IMPORTS = "import torch"
MODULES = """
base = torch.nn.Sequential(torch.nn.Linear(90, 60), torch.nn.BatchNorm1d(60))
x = torch.arange(360.0).view(4, 90)
"""


@pytest.mark.parametrize("make", ["script(base)", "trace(base, x)"])
def test_a_module_is_its_own_tensors_again(library_home, make):
    home = library_home
    home.execute(
        MODULES + f"module = torch.jit.{make}\nweight = getattr(module, '0').weight\n"
        "optimizer = torch.optim.SGD(module.parameters(), 0.1)\nloss = None"
    )
    assert home.commit()["declined"] == {}
    step = (
        "optimizer.zero_grad(); loss = module(x).square().sum(); loss.backward()\noptimizer.step()"
    )
    look = "loss = float(module(x).sum()), weight is getattr(module, '0').weight, module.training"
    home.execute("module.eval()\n" + look)
    there = home.ns["loss"]
    home.commit()
    hand_over(home, look)
    assert home.ns["loss"] == there and there[1:] == (True, False)
    before = home.ns["weight"].detach().clone()
    hand_over(home, "module.train()\n" + step + "\nloss = loss.item()")
    home.execute(look)
    assert home.ns["loss"][1:] == (True, True)
    assert not home.ns["weight"].equal(before)
    assert home.ns["base"][0].weight is home.ns["weight"]  # as torch.jit made it


def test_functions(library_home):
    home = library_home
    home.execute(
        "twice = torch.jit.trace(lambda x: x * 2, torch.ones(2))\nvalue = None\n"
        "unit = torch.jit.CompilationUnit('def power(x, n: int):\\n  for _ in range(n):\\n"
        "    x = x * x\\n  return x\\ndef more(x, n: int = 3):\\n  return x + n\\n')\n"
        "power, more = unit.power, unit.more\ndel unit\nmethod = torch.jit.script(torch.nn.ReLU()).forward"
    )
    declined = home.commit()["declined"]
    assert set(declined) == {"more", "method"}
    assert "defaults" in declined["more"] and "carry the module" in declined["method"]
    for _ in range(2):
        hand_over(
            home, "value = power(twice(torch.ones(1)), 2).item()\npower.mark = twice.mark = 1"
        )
        assert home.ns["value"] == 16.0
