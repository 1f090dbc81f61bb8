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
# Every second of them has each kind and each order.
IN_ORDER = [
    (kind, order)
    for number, kind in enumerate(KINDS)
    for order in sorted(ORDERS, reverse=bool(number % 2))
]


@pytest.mark.parametrize(("kind", "order"), effort.sample(IN_ORDER, 2))
def test_a_part_is_its_model_s_again(library_home, kind, order):
    """The whole takes half a minute: CI runs every second."""
    home = library_home
    home.execute(KINDS[kind] + TRAINED + PARTS + ORDERS[order])
    if "Net" in home.ns:
        home.ns["Net"].__module__ = "__main__"
    exec(CHECK, home.ns)
    assert home.commit()["declined"] == {}
    before, names = home.ns["model"], [layer.name for layer in home.ns["model"].layers]
    assert hand_over(home, CHECK)["saved"] == []
    assert home.ns["model"] is before
    for turn in (1, 2):
        hand_over(home, CHECK + "loss = float(model.train_on_batch(x, y))" + CHECK)
        exec(CHECK, home.ns)
        assert home.ns["model"] is not before
    assert home.ns["model"].optimizer.iterations.numpy() == 3
    assert [layer.name for layer in home.ns["model"].layers] == names
    hand_over(home, "a_weight.assign(a_weight * 0 + 5)")
    assert (home.ns["model"].layers[-1].get_weights()[0] == 5).all()


def test_parts_of_nested_models(library_home):
    home = library_home
    home.execute(FUNCTIONAL + TRAINED + "inner = encoder.layers[0]\nbias = inner.bias")
    home.commit()
    hand_over(home, "assert encoder is model.layers[1]\nbias.assign([1, 2, 3])")
    ns = home.ns
    assert ns["encoder"] is ns["model"].layers[1]
    assert ns["inner"] is ns["encoder"].layers[0] and ns["bias"] is ns["inner"].bias
    assert ns["encoder"].get_weights()[1].tolist() == [1, 2, 3]


def test_a_layer_without_a_model_and_its_variable(library_home):
    home = library_home
    home.execute("weight = None\nlayer = layers.Dense(2)\n_ = layer(np.ones((1, 3)))")
    home.execute("weight = layer.kernel\nfree = keras.Variable([1.0, 2.0])\ndel _")
    home.commit()
    hand_over(home, "assert weight is layer.kernel\nfree.assign([3, 4])\nweight.assign(weight + 1)")
    assert home.ns["weight"] is home.ns["layer"].kernel
    assert home.ns["free"].numpy().tolist() == [3, 4]


def test_a_function_s_model_is_the_named_one(library_home):
    home = library_home
    home.execute(
        SEQUENTIAL + TRAINED + "def make(layer):\n    return lambda: layer\n"
        "held = make(model.layers[0])"
    )
    home.commit()
    hand_over(home, "assert held() is model.layers[0]\nloss = model.train_on_batch(x, y)")
    assert home.ns["held"]() is home.ns["model"].layers[0]


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


def test_models_that_share_layers_share_them_again(library_home):
    home = library_home
    home.execute(SHARED + IS_SHARED)
    assert home.commit()["declined"] == {}
    first = home.ns["value"]
    assert hand_over(home, IS_SHARED + f"assert value == {first!r}")["saved"] == []
    for _ in range(2):
        hand_over(home, "auto.train_on_batch(x, x); line.train_on_batch(x, x[:, :2])" + IS_SHARED)
        there = home.ns["value"]
        home.execute(IS_SHARED)
        assert home.ns["value"] == there != first
    assert home.ns["auto"].optimizer.iterations.numpy() == 3
    home.execute("again = keras.Model(auto.inputs, encoder.outputs)\nvalue = again(x).shape")
    assert home.ns["value"] == (8, 3)


def test_a_model_in_two_models(library_home):
    home = library_home
    home.execute(
        FUNCTIONAL + "other = (lambda i: keras.Model(i, layers.Dense(3)(encoder(i)) - encoder(i)))("
        "keras.Input((4,)))\nx, value = np.ones((2, 4)), None\nwant = other(x).numpy().tolist()"
    )
    assert home.commit()["declined"] == {}
    look = (
        "inner = [one for one in other.layers if one.name == 'encoder']\n"
        "value = inner[0] is encoder is model.layers[1], other(x).numpy().tolist() == want\n"
        "del inner"
    )
    for _ in range(2):
        hand_over(home, look + "\nmodel.mark = 1")
        assert home.ns["value"] == (True, True)
