"""JAX: functions with derivatives of their own."""

import pytest

import holdfast


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


def test_attributes_are_all_that_they_are():
    jax = pytest.importorskip("jax")
    function = jax.custom_jvp(abs)
    function.defjvp(pow)
    function.note = [function]
    arrived = crossed(function)
    assert arrived.fun is abs and arrived.jvp is pow and arrived.note[0] is arrived
    assert crossed(jax.custom_vjp(abs)).fun is abs
