"""Values of machine-learning libraries in real kernels: used on both sides, changed, returned.

Each kernel runs a cell of the library's own threads in the home first, since those are what a
forked worker could hang on.
"""

import pytest

INSTRUMENTED = "%%execute_with_scorep\n"


def check(outcome):
    assert outcome.status == "ok", outcome.content
    assert "not carried" not in outcome.stream("stderr"), outcome.stream("stderr")
    return outcome


TORCH = """
import torch
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
data = torch.randn(2048, 64)
big = torch.zeros(1 << 20)
row = big[:1000]
def step():
    optimizer.zero_grad()
    loss = (model(data) - 1).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()
(torch.randn(500, 500) @ torch.randn(500, 500)).sum(), step()
"""


def test_torch(kernel):
    pytest.importorskip("torch")
    check(kernel.run(TORCH, timeout=120))
    check(kernel.run("first = step()"))
    outcome = check(
        kernel.run(INSTRUMENTED + "second = step()\nbig[5] = 7\nnoise = torch.rand(3)", timeout=120)
    )
    # Both were born in the arena: neither the page that changed nor the rest was copied whole.
    assert outcome.cost["bytes_copied"] < 1 << 20
    outcome = check(
        kernel.run(
            "third = step()\nstate = torch.get_rng_state()\n"
            "print(first > second > third, row[5].item(), model[0].weight.grad is not None)"
        )
    )
    assert outcome.stream() == "True 7.0 True\n"
    outcome = check(
        kernel.run(
            INSTRUMENTED + "print(torch.equal(state, torch.get_rng_state()), first > step())",
            timeout=120,
        )
    )
    assert outcome.stream().startswith("True True\n")
