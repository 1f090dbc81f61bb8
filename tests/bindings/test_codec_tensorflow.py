"""TensorFlow's and Keras' values through the store."""

import os
import sys

import pytest
from needed import needed
from store_process import hand_over

tf = needed("tensorflow")
keras = needed("keras")

os.putenv("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")  # as in a worker: see worker/arrays.py
SIZE = 1 << 20
LIBRARIES = ("tensorflow", "keras")
IMPORTS = "import numpy as np, tensorflow as tf, keras"


KINDS = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 half bfloat16 float32 float64"
KINDS = [*KINDS.split(), "complex64", "complex128"]


def test_every_dtype_is_what_it_was_and_is_mapped(library_main):
    main = library_main
    main.execute(
        f"large = {{k: tf.cast(tf.range({SIZE}) % 3, k) for k in {KINDS!r}}}\n"
        f"small = {{k: tf.cast(tf.reshape(tf.range(6), (2, 3)), k) for k in {KINDS!r}}}\n"
        "others = [tf.constant(5), tf.constant(['a', 'bc']), tf.zeros((0, 3)), tf.constant('x'),\n"
        "    tf.ragged.constant([[1, 2], [3]]), tf.sparse.from_dense([[0, 1], [2, 0]]),\n"
        "    tf.TensorShape([1, None]), tf.float16, tf.TensorSpec([2], tf.int8)]\n"
        "sums = {k: complex(tf.reduce_sum(tf.cast(v, 'complex128'))) for k, v in large.items()}"
    )
    assert not main.commit()["unserializable"]
    done = hand_over(
        main,
        "def check():\n"
        "    for k, v in large.items():\n"
        "        assert v.dtype == tf.as_dtype(k)\n"
        "        assert complex(tf.reduce_sum(tf.cast(v, 'complex128'))) == sums[k], k\n"
        "        wanted = tf.cast([[0, 1, 2], [3, 4, 5]], k)\n"
        "        assert tf.reduce_all(small[k] == wanted) and small[k].dtype == wanted.dtype\n"
        "check()\ndel check\n"
        "assert others[0].numpy() == 5 and others[1].numpy().tolist() == [b'a', b'bc']\n"
        "assert others[2].shape == (0, 3) and others[4].to_list() == [[1, 2], [3]]\n"
        "assert tf.sparse.to_dense(others[5]).numpy().tolist() == [[0, 1], [2, 0]]\n"
        "value = [str(v) for v in others[6:]]",
    )
    sizes = sum(tf.as_dtype(kind).size for kind in KINDS) * SIZE
    assert done["mapped"] == sizes and done["copied"] < 1 << 16
    assert done["saved"] == ["value"]
    assert main.ns["value"] == [str(value) for value in main.ns["others"][6:]]


def test_variables_are_assigned_to_and_are_one_object(library_main):
    main = library_main
    main.execute(
        f"v = tf.Variable(tf.ones({SIZE}), name='mine', trainable=False)\nw = [v]\n"
        "free = tf.Variable([1.0], shape=tf.TensorShape(None))"
    )
    main.commit()
    for turn in (2, 3, 4):
        hand_over(main, "assert w[0] is v\nv.assign_add(tf.ones(v.shape))\nfree.assign([1., 2.])")
        v = main.ns["v"]
        assert v is main.ns["w"][0] and v.numpy()[5] == turn
        assert v.name == "mine:0" and not v.trainable
    assert main.ns["free"].numpy().tolist() == [1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="import tables are read on Linux only")
def test_what_is_born_in_the_arena_is_saved_without_a_copy(main_arena):
    main = main_arena
    main.execute(
        f"x = tf.ones({SIZE})\ny = tf.function(lambda x: x * 2 + 1)(x)\nv = tf.Variable(y)"
    )
    report = main.commit()
    assert report["bytes_shared"] == 2 * 4 * SIZE and report["bytes_copied"] < 1 << 16
    for turn in (1, 2):
        done = hand_over(main, "y = x + y\nv.assign_add(x)\nvalue = float(tf.reduce_sum(y))")
        assert done["copied"] < 1 << 16 and done["value"] == (3 + turn) * SIZE
        main.execute("x = x * 1")
        assert main.commit()["bytes_copied"] < 1 << 16
    assert main.ns["v"].numpy()[7] == 5 == main.ns["y"].numpy()[7]
    main.execute("z = x + 1\ndel z")
    most = main.session.info()["reserved_bytes"]
    for _ in range(20):
        main.execute("z = x + 1\ndel z")
    assert main.session.info()["reserved_bytes"] == most


def test_what_lives_inside_of_tensorflow_is_declined_alone(library_main):
    library_main.execute(
        "good = tf.ones(3)\ndata = tf.data.Dataset.range(3).map(lambda x: x)\nat = iter(data)\n"
        "rows = tf.TensorArray(tf.float32, 2)"
    )
    report = library_main.commit()
    assert "good" in report["saved"]
    assert set(report["unserializable"]) == {"data", "at", "rows"}
    for name, word in (("data", "dataset"), ("at", "iterator"), ("rows", "stack()")):
        assert word in report["unserializable"][name]


def test_a_function_is_carried_without_what_it_traced(library_main):
    main = library_main
    main.execute("""
v, traced = tf.Variable(2.0), []
@tf.function(reduce_retracing=True)
def scale(x): traced.append(1); return x * v
before = scale(tf.constant(3.0))
""")
    function = main.ns["scale"]
    assert main.commit()["unserializable"] == {}
    done = hand_over(main, "v.assign(5.0); value = [float(scale(tf.constant(3.0))), len(traced)]")
    assert done["value"] == [15.0, 2]
    assert float(main.ns["scale"](main.ns["tf"].constant(3.0))) == 15.0
    assert main.ns["scale"]._reduce_retracing
    assert function is not main.ns["scale"]  # it was carried with the variable that changed


MODEL = """
class Twice(keras.layers.Layer):
    def call(self, x):
        return x * 2
keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(64, activation="relu"), Twice(),
                          keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
x, y = np.ones((64, 20), "f4"), np.ones((64, 1), "f4")
first = model.train_on_batch(x, y)
"""


def test_training_goes_on_as_in_one_process(library_main):
    main = library_main
    main.execute(MODEL)
    main.ns["Twice"].__module__ = "__main__"
    alone = {"keras": keras, "np": main.ns["np"]}
    exec(MODEL, alone)
    main.commit()
    # Looked at, and not changed: it is not written again, and the main worker keeps its object.
    before = main.ns["model"]
    assert hand_over(main, "value = float(model(x[:1]).numpy()[0, 0])")["saved"] == ["value"]
    assert main.ns["model"] is before
    for _ in range(2):
        exec("value = float(model.train_on_batch(x, y))", alone)
        done = hand_over(main, "value = float(model.train_on_batch(x, y))")
        assert done["value"] == pytest.approx(alone["value"], rel=1e-5)
    assert main.ns["model"].optimizer.iterations.numpy() == 3
