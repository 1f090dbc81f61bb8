"""Values of machine-learning libraries in real kernels: used on both sides, changed, returned.

Each kernel runs a cell of the library's own threads in the main worker first, since those are what a
forked worker could hang on.
"""

import pytest
from needed import needed

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
    needed("torch")
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


def test_an_autograd_graph(kernel):
    needed("torch")
    check(kernel.run("import torch; w = torch.ones(2, requires_grad=True); loss = (w * w).sum()"))
    outcome = check(kernel.run(INSTRUMENTED + "loss.backward(); w.grad"))
    assert outcome.result == "tensor([2., 2.])"


def test_forks_come_before_cuda(kernel):
    """Neither the fork server nor a standby starts CUDA by importing PyTorch or waiting."""
    needed("torch")
    kernel.run("import torch; import time; time.sleep(0.5)")
    kernel.run("torch.nn.Linear(3, 3)")
    asked = "torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork()"
    for _ in range(2):
        clean = kernel.run("%%execute_with_scorep --run=isolated\n" + asked, timeout=120)
        assert clean.result == "(False, False)"
    assert kernel.run(asked).result == "(False, False)"


TENSORFLOW = """
import tensorflow as tf, keras, numpy as np
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = np.random.default_rng(1).normal(size=(512, 64)).astype("f4")
goal = np.ones((512, 1), "f4")
big = tf.zeros(1 << 20)
v = tf.Variable(tf.zeros(1000))
float(tf.reduce_sum(tf.random.uniform((500, 500)) @ tf.random.uniform((500, 500))))
"""
FIT = "model.fit(data, goal, epochs=1, verbose=0).history['loss'][0]"


def test_tensorflow(kernel):
    needed("tensorflow")
    check(kernel.run(TENSORFLOW, timeout=180))
    check(kernel.run(f"first = {FIT}", timeout=60))
    outcome = check(
        kernel.run(
            INSTRUMENTED
            + f"second = {FIT}\nv.assign_add(tf.ones(1000))\nmade = big + tf.reduce_sum(v)",
            timeout=180,
        )
    )
    assert outcome.cost["bytes_copied"] < 1 << 20  # `big` and `made` were born in the arena
    outcome = check(
        kernel.run(f"third = {FIT}\nprint(first > second > third, float(made[5]), float(v[0]))")
    )
    assert outcome.stream() == "True 1000.0 1.0\n"
    outcome = check(kernel.run(INSTRUMENTED + f"print({FIT} < third)", timeout=180))
    assert outcome.stream().startswith("True\n")


JAX = """
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
w, x = jnp.zeros(64), jax.random.normal(jax.random.key(1), (512, 64))
big = jnp.ones(1 << 20)
@jax.jit
def loss(w):
    return ((x @ w - 1) ** 2).mean()
step = jax.jit(lambda w: w - 0.01 * jax.grad(loss)(w))
first = float(loss(w))
w = step(w)
"""


@pytest.mark.long
def test_jax(kernel):
    needed("jax")
    check(kernel.run(JAX, timeout=120))
    cell = "w = step(w)\nsecond = float(loss(w))\nmade = big + 1"
    outcome = check(kernel.run(INSTRUMENTED + cell, timeout=120))
    assert outcome.cost["bytes_copied"] < 1 << 20  # `big` and `made` were born in the arena
    outcome = check(kernel.run("print(first > second > float(loss(step(w))), w.dtype)"))
    assert outcome.stream() == "True float64\n"
    outcome = check(
        kernel.run(INSTRUMENTED + "print(jnp.arange(3.0).dtype, float(loss(w)) == second)")
    )
    assert outcome.stream().startswith("float64 True\n")
