"""What is part of a Keras model, under names of its own, through the store."""

import effort
import pytest
from needed import needed
from store_process import hand_over

needed("tensorflow")
needed("keras")

LIBRARIES = ("tensorflow", "keras")
IMPORTS = "import numpy as np, tensorflow as tf, keras\nfrom keras import layers"

SEQUENTIAL = """
model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="relu"), layers.Dense(1)])
"""
FUNCTIONAL = """
encoder = keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="encoder")
model = (lambda i: keras.Model(i, layers.Dense(1)(layers.Dense(2)(encoder(i)))))(keras.Input((4,)))
"""
SUBCLASSED = """
UNITS = 2
def make_block(): return keras.Sequential([layers.Dense(UNITS), layers.Dropout(0.1)])
@keras.saving.register_keras_serializable()
class Net(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.first = layers.Dense(3)
        self.blocks = [layers.Dense(2), make_block()]
        self.last = layers.Dense(1)
    def call(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)
model = Net()
"""
TRAINED = """
model.compile(keras.optimizers.Adam(0.01), "mse")
x, y = np.ones((8, 4), "f4"), np.ones((8, 1), "f4")
loss = model.train_on_batch(x, y)
"""
# Names before the model's, and after it: the value of a group is read in the order of names.
PARTS = """
a_layer, z_layer = model.layers[0], model.layers[-1]
a_optimizer = z_optimizer = model.optimizer
a_weight, z_weight = model.layers[-1].kernel, model.trainable_variables[0]
a_slot = model.optimizer.variables[2]
deep = {"here": [model.layers[-1], model], "name": "x"}
"""
CHECK = """
def check():
    assert a_layer is model.layers[0] and z_layer is model.layers[-1]
    assert a_optimizer is z_optimizer is model.optimizer
    assert a_weight is model.layers[-1].kernel and z_weight is model.trainable_variables[0]
    assert a_slot is model.optimizer.variables[2]
    assert deep["here"][0] is z_layer and deep["here"][1] is model
check()
del check
"""
ORDERS = {
    "parts last": "",
    "parts first": "model_ = model\ndel model\nmodel = model_\ndel model_\n",
}


KINDS = {"seq": SEQUENTIAL, "func": FUNCTIONAL, "sub": SUBCLASSED}
# One after the other has another kind, and every second one another order.
IN_ORDER = [
    (kind, order)
    for number, kind in enumerate(KINDS)
    for order in sorted(ORDERS, reverse=bool(number % 2))
]


@pytest.mark.parametrize(("kind", "order"), effort.core(IN_ORDER, [("sub", "parts first")]))
def test_a_part_is_its_model_s_again(library_main, kind, order):
    """The whole takes half a minute: CI runs one."""
    main = library_main
    main.execute(KINDS[kind] + TRAINED + PARTS + ORDERS[order])
    if "Net" in main.ns:
        main.ns["Net"].__module__ = "__main__"
    exec(CHECK, main.ns)
    assert main.commit()["unserializable"] == {}
    before, names = main.ns["model"], [layer.name for layer in main.ns["model"].layers]
    assert hand_over(main, CHECK)["saved"] == []
    assert main.ns["model"] is before
    for turn in (1, 2):
        hand_over(main, CHECK + "loss = float(model.train_on_batch(x, y))" + CHECK)
        exec(CHECK, main.ns)
        assert main.ns["model"] is not before
    assert main.ns["model"].optimizer.iterations.numpy() == 3
    assert [layer.name for layer in main.ns["model"].layers] == names
    hand_over(main, "a_weight.assign(a_weight * 0 + 5)")
    assert (main.ns["model"].layers[-1].get_weights()[0] == 5).all()


def test_parts_of_nested_models(library_main):
    main = library_main
    main.execute(FUNCTIONAL + TRAINED + "inner = encoder.layers[0]\nbias = inner.bias")
    main.commit()
    hand_over(main, "assert encoder is model.layers[1]\nbias.assign([1, 2, 3])")
    ns = main.ns
    assert ns["encoder"] is ns["model"].layers[1]
    assert ns["inner"] is ns["encoder"].layers[0] and ns["bias"] is ns["inner"].bias
    assert ns["encoder"].get_weights()[1].tolist() == [1, 2, 3]


def test_a_layer_without_a_model_and_its_variable(library_main):
    main = library_main
    main.execute("weight = None\nlayer = layers.Dense(2)\n_ = layer(np.ones((1, 3)))")
    main.execute("weight = layer.kernel\nfree = keras.Variable([1.0, 2.0])\ndel _")
    main.commit()
    hand_over(main, "assert weight is layer.kernel\nfree.assign([3, 4])\nweight.assign(weight + 1)")
    assert main.ns["weight"] is main.ns["layer"].kernel
    assert main.ns["free"].numpy().tolist() == [3, 4]


def test_a_function_s_model_is_the_named_one(library_main):
    main = library_main
    main.execute(
        SEQUENTIAL + TRAINED + "def make(layer):\n    return lambda: layer\n"
        "held = make(model.layers[0])"
    )
    main.commit()
    hand_over(main, "assert held() is model.layers[0]\nloss = model.train_on_batch(x, y)")
    assert main.ns["held"]() is main.ns["model"].layers[0]


SHARED = """
i, j = keras.Input((4,)), keras.Input((3,))
h = layers.Dense(3, name="h")(i)
o = layers.Dense(4, name="o")(h * 2.0)
auto = keras.Model(i, o, name="auto")
encoder = keras.Model(i, h, name="encoder")
decoder = keras.Model(j, auto.layers[-1](j), name="decoder")
line = keras.Sequential([keras.Input((4,)), auto.get_layer("h"), decoder, layers.Dense(2)])
auto.compile(keras.optimizers.Adam(0.1), "mse")
line.compile("sgd", "mse")
x = np.ones((8, 4), "f4")
auto.train_on_batch(x, x)
models = auto, encoder, decoder, line
del i, j, h, o
value = None
"""
IS_SHARED = """
h, o = auto.get_layer("h"), auto.get_layer("o")
assert encoder.layers[-1] is h and decoder.layers[-1] is o and line.layers[0] is h
assert line.layers[1] is decoder and encoder.inputs[0] is auto.inputs[0]
value = [model(np.ones((1, model.inputs[0].shape[1]))).numpy().tolist() for model in models]
del h, o
"""


def test_models_that_share_layers_share_them_again(library_main):
    main = library_main
    main.execute(SHARED + IS_SHARED)
    assert main.commit()["unserializable"] == {}
    first = main.ns["value"]
    assert hand_over(main, IS_SHARED + f"assert value == {first!r}")["saved"] == []
    for _ in range(2):
        hand_over(main, "auto.train_on_batch(x, x); line.train_on_batch(x, x[:, :2])" + IS_SHARED)
        there = main.ns["value"]
        main.execute(IS_SHARED)
        assert main.ns["value"] == there != first
    assert main.ns["auto"].optimizer.iterations.numpy() == 3
    main.execute("again = keras.Model(auto.inputs, encoder.outputs)\nvalue = again(x).shape")
    assert main.ns["value"] == (8, 3)


def test_a_model_in_two_models(library_main):
    main = library_main
    main.execute(
        FUNCTIONAL + "other = (lambda i: keras.Model(i, layers.Dense(3)(encoder(i)) - encoder(i)))("
        "keras.Input((4,)))\nx, value = np.ones((2, 4)), None\nwant = other(x).numpy().tolist()"
    )
    assert main.commit()["unserializable"] == {}
    look = (
        "inner = [one for one in other.layers if one.name == 'encoder']\n"
        "value = inner[0] is encoder is model.layers[1], other(x).numpy().tolist() == want\n"
        "del inner"
    )
    for _ in range(2):
        hand_over(main, look + "\nmodel.mark = 1")
        assert main.ns["value"] == (True, True)
