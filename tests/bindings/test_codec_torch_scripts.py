"""TorchScript: modules and functions through the store."""

import pytest
from needed import needed
from store_process import hand_over

needed("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LIBRARIES = ("torch", "torch._dynamo")  # as test_codec_torch.py has them
IMPORTS = "import torch"
MODULES = """
base = torch.nn.Sequential(torch.nn.Linear(90, 60), torch.nn.BatchNorm1d(60))
x = torch.arange(360.0).view(4, 90)
"""


@pytest.mark.parametrize("make", ["script(base)", "trace(base, x)"])
def test_a_module_is_its_own_tensors_again(library_main, make):
    main = library_main
    main.execute(
        MODULES + f"module = torch.jit.{make}\nweight = getattr(module, '0').weight\n"
        "optimizer = torch.optim.SGD(module.parameters(), 0.1)\nloss = None"
    )
    assert main.commit()["unserializable"] == {}
    step = (
        "optimizer.zero_grad(); loss = module(x).square().sum(); loss.backward()\noptimizer.step()"
    )
    look = "loss = float(module(x).sum()), weight is getattr(module, '0').weight, module.training"
    main.execute("module.eval()\n" + look)
    there = main.ns["loss"]
    main.commit()
    hand_over(main, look)
    assert main.ns["loss"] == there and there[1:] == (True, False)
    before = main.ns["weight"].detach().clone()
    hand_over(main, "module.train()\n" + step + "\nloss = loss.item()")
    main.execute(look)
    assert main.ns["loss"][1:] == (True, True)
    assert not main.ns["weight"].equal(before)
    assert main.ns["base"][0].weight is main.ns["weight"]  # as torch.jit made it


def test_functions(library_main):
    main = library_main
    main.execute(
        "twice = torch.jit.trace(lambda x: x * 2, torch.ones(2))\nvalue = None\n"
        "unit = torch.jit.CompilationUnit('def power(x, n: int):\\n  for _ in range(n):\\n"
        "    x = x * x\\n  return x\\ndef more(x, n: int = 3):\\n  return x + n\\n')\n"
        "power, more = unit.power, unit.more\ndel unit\nmethod = torch.jit.script(torch.nn.ReLU()).forward"
    )
    unserializable = main.commit()["unserializable"]
    assert set(unserializable) == {"more", "method"}
    assert "defaults" in unserializable["more"] and "carry the module" in unserializable["method"]
    for _ in range(2):
        hand_over(
            main, "value = power(twice(torch.ones(1)), 2).item()\npower.mark = twice.mark = 1"
        )
        assert main.ns["value"] == 16.0
