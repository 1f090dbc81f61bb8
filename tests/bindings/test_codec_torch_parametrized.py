"""PyTorch: parametrized modules."""

import pytest

import holdfast


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


def test_a_parametrized_module():
    torch = pytest.importorskip("torch")
    module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    arrived = crossed(module)
    assert type(arrived).__name__ == "ParametrizedLinear" and type(arrived) is not type(module)
    assert torch.equal(arrived.weight, module.weight)
    torch.nn.utils.parametrize.remove_parametrizations(arrived, "weight")
    assert type(arrived) is torch.nn.Linear
