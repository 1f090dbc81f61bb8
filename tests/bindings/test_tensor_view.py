"""Tensors of PyTorch, TensorFlow and JAX in a program that doesn't have their library: arrays."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from holdfast import store

PROGRAM = """
import json, sys
for name in sys.argv[2].split(","):
    sys.modules[name] = None
from holdfast import store
with store.Session.open(sys.argv[1]) as s:
    said = {}
    for name in [name for name in s if name != "mine"]:
        try:
            view = s[name]
        except store.Error as error:
            said[name] = str(error)
            continue
        if "numpy" in sys.argv[2]:
            assert type(view) is memoryview
            said[name] = [view.format, view.shape, view.tobytes().hex()]
        else:
            import numpy
            assert not view.flags.writeable and numpy.from_dlpack(view).shape == view.shape
            said[name] = [view.dtype.str, view.shape, view.tobytes().hex()]
    s["mine"] = 1
    s.commit()
print(json.dumps(said))
"""


def look(session, without):
    argv = [sys.executable, "-c", PROGRAM, session.name, without]
    ran = subprocess.run(argv, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def check(session, library, values, declined):
    """`values` are pairs of a tensor and the array that it is."""
    with store.Session.open(session.name) as owner:
        owner.update({name: tensor for name, (tensor, _) in values.items()} | declined)
        generation = owner.commit()
        assert owner.commit() == generation
        with store.Session.open(session.name) as other:  # which decodes and encodes all of them
            assert len(list(other.values())) == len(values) + len(declined)
            assert other.commit() == generation
        for without in (library, f"{library},numpy"):
            said = look(session, without)
            for name, (_, array) in values.items():
                kind, shape, content = said[name]
                expected = memoryview(array).format.replace("l", "q").replace("L", "Q")
                assert kind == (array.dtype.str if without == library else expected), name
                assert tuple(shape) == array.shape and content == array.tobytes().hex(), name
            for name in declined:
                assert "ModuleNotFoundError" in said[name], name


def test_pytorch(session):
    torch = pytest.importorskip("torch")
    large = torch.arange(60_000, dtype=torch.float32).reshape(200, 300)
    whole = np.arange(60_000, dtype="f4").reshape(200, 300)
    values = {
        "large": (large.clone(), whole),
        "turned": (large.clone().T, whole.T),
        "few": (torch.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)),
        "flag": (torch.tensor(True), np.array(True)),
        "none": (torch.zeros(0, 3), np.zeros((0, 3), "f4")),
        "complex": (torch.ones(3, dtype=torch.complex64), np.ones(3, "c8")),
        "weights": (torch.nn.Parameter(torch.ones(5000)), np.ones(5000, "f4")),
        "computed": (torch.ones(5, requires_grad=True) * 2, np.full(5, 2, "f4")),
        "shared": (large, whole),  # in a group
        "part": (large[3:7, ::2], whole[3:7, ::2]),
    }
    declined = {
        "half": torch.ones(3, dtype=torch.bfloat16),
        "sparse": torch.ones(3).to_sparse(),
        "conjugated": torch.ones(3, dtype=torch.complex64).conj(),
        "list": [torch.ones(3)],
    }
    check(session, "torch", values, declined)
    values["few"][0].resize_(100)  # still allowed


def test_tensorflow(session):
    tf = pytest.importorskip("tensorflow")
    whole = np.arange(60_000.0).reshape(200, 300)
    values = {
        "large": (tf.constant(whole), whole),
        "few": (tf.constant([1, 2, 3]), np.array([1, 2, 3], "i4")),
        "point": (tf.constant(7.5), np.array(7.5, "f4")),
        "variable": (tf.Variable(whole), whole),
    }
    declined = {"text": tf.constant("a"), "ragged": tf.ragged.constant([[1], [2, 3]])}
    check(session, "tensorflow", values, declined)


def test_jax(session):
    jax = pytest.importorskip("jax")
    whole = np.arange(60_000, dtype="f4").reshape(200, 300)
    values = {
        "large": (jax.numpy.asarray(whole), whole),
        "few": (jax.numpy.arange(3), np.arange(3, dtype="i4")),
        "point": (jax.numpy.float32(7.5), np.array(7.5, "f4")),
    }
    declined = {"half": jax.numpy.ones(3, "bfloat16"), "key": jax.random.key(1)}
    check(session, "jax", values, declined)


@pytest.mark.skipif(not os.environ.get("HOLDFAST_BUILD"), reason="HOLDFAST_BUILD isn't set")
def test_a_program_in_c_maps_a_tensor(session, tmp_path):
    torch = pytest.importorskip("torch")
    from foreign_reader import Reader, build

    reader = Reader(build(tmp_path))
    with store.Session.open(session.name) as owner:
        owner["tensor"] = torch.arange(60_000, dtype=torch.float64)
        owner["whole"] = torch.arange(60_000, dtype=torch.int64)
        owner["part"] = owner["whole"][10:20]
        owner["half"] = torch.ones(3, dtype=torch.bfloat16)
        owner.commit()
        assert reader("open", session.name) == session.name
        assert reader("of", "tensor") == f"<f8[] (60000) {60_000 * 59_999 // 2}"
        assert reader("private").split()[1] == "0"
        assert reader("of", "whole") == f"<i8[] (60000) {60_000 * 59_999 // 2}"
        assert reader("private").split()[1] == "0"
        assert reader("of", "part") == "<i8[] (10) 145"
        assert reader("of", "half") == "HF_DECLINED it is no array but a Tensor"
    assert reader.close() == 0
