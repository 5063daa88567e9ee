"""What `keras_internals` uses of Keras beyond its public API: a new release may change it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore import keras_internals


class Doubling(layers.Layer):
    """A layer with a variable of its own and a sub-layer with others."""

    def __init__(self):
        super().__init__(name="doubling")
        self.inner = layers.Dense(2)
        self.factor = self.add_weight(shape=(), initializer="ones", name="factor")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x):
        return self.inner(x) * self.factor


class Subclassed(keras.Model):
    """A model whose call has no argument `training`."""

    def __init__(self):
        super().__init__()
        self.block = Doubling()

    def call(self, x):
        return self.block(x)


@pytest.fixture
def model():
    """A network of two calls of one layer."""
    inputs = keras.Input((2,), name="x")
    shared = layers.Dense(2, name="shared")
    hidden = layers.Flatten(name="flat")(shared(inputs))
    return keras.Model(inputs, layers.Activation("relu", name="out")(shared(hidden)))


def test_a_layer_has_its_sub_layers_once():
    model = Subclassed()
    model(np.zeros((1, 2), np.float32))
    names = [type(layer).__name__ for layer in keras_internals.flatten_layers(model)]
    assert names == ["Subclassed", "Doubling", "Dense"]
    below = keras_internals.flatten_layers(model, include_self=False, recursive=False)
    assert [type(layer).__name__ for layer in below] == ["Doubling"]


def test_the_variables_of_a_layer_itself_are_told_from_those_of_its_sub_layers():
    layer = Doubling()
    layer(np.zeros((1, 2), np.float32))
    assert len(layer.variables) == 4
    assert [one.name for one in keras_internals.direct_variables(layer)] == ["factor", "calls"]


def test_an_optimizer_says_what_it_was_built_for():
    variable, optimizer = keras.Variable([1.0]), keras.optimizers.Adam()
    optimizer.build([variable])
    assert [id(one) for one in keras_internals.trained_variables(optimizer)] == [id(variable)]


def test_only_models_whose_call_has_it_get_the_training_argument(model):
    assert keras_internals.training_argument(model, training=True) == {"training": True}
    assert keras_internals.training_argument(Subclassed(), training=True) == {}


def test_a_symbolic_tensor_leads_back_to_the_inputs(model):
    names, tensors = [], list(model.outputs)
    while tensors:
        operation, call = keras_internals.producer(tensors.pop())
        names.append((operation.name, call))
        tensors += keras_internals.input_tensors(operation, call)
    assert names == [("out", 0), ("shared", 1), ("flat", 0), ("shared", 0), ("x", 0)]


def test_the_calls_of_a_layer_are_those_in_one_network(model):
    shared = model.get_layer("shared")
    keras.Sequential([keras.Input((2,)), shared])
    assert len(keras_internals.calls_in_network(shared, model)) == 2


def test_a_metric_has_its_function_and_its_direction():
    metric = keras.metrics.BinaryAccuracy(threshold=0.25)
    function, arguments = keras_internals.metric_function(metric)
    values = function(np.array([[1.0], [0.0]]), np.array([[0.3], [0.3]]), **arguments)
    assert np.array(values).tolist() == [[1.0], [0.0]]
    assert keras_internals.metric_direction(metric) == "up"
    assert keras_internals.metric_direction(keras.metrics.MeanSquaredError()) == "down"
    assert keras_internals.metric_direction(keras.metrics.Mean()) is None


def test_the_layers_of_keras_are_told_from_others():
    assert keras_internals.is_layer_of_keras(layers.Dense(2))
    assert not keras_internals.is_layer_of_keras(Doubling())


def test_a_variable_can_be_read_in_its_own_dtype():
    variable = keras.Variable([1.0])
    scope = keras.src.backend.AutocastScope("float16")
    with scope:
        assert variable.value.dtype == tf.float16
        with keras_internals.without_autocast(variable):
            assert variable.value.dtype == tf.float32
        assert variable.value.dtype == tf.float16


def test_a_replaced_method_is_called_and_put_back():
    layer = layers.Dense(2, kernel_initializer="ones")
    layer.build((None, 2))
    x, before = np.ones((1, 2), np.float32), layer.call
    with keras_internals.replaced_methods([(layer, lambda x: x * 3)]):
        assert np.array(layer(x)).tolist() == [[3.0, 3.0]]
        with keras_internals.replaced_methods([(layer, lambda x: x * 5)]):
            assert np.array(layer(x)).tolist() == [[5.0, 5.0]]
        assert np.array(layer(x)).tolist() == [[3.0, 3.0]]
    assert layer.call == before
    assert np.array(layer(x)).tolist() == [[2.0, 2.0]]


def test_the_moments_of_a_batch_come_from_a_method_that_can_be_replaced():
    layer = layers.BatchNormalization(momentum=0.0, epsilon=0.0)
    layer.build((None, 1))
    moments = [(layer, lambda x, mask: (tf.constant([1.0]), tf.constant([4.0])))]
    with keras_internals.replaced_methods(moments, keras_internals.MOMENTS):
        assert np.array(layer(np.array([[5.0]], np.float32), training=True)).tolist() == [[2.0]]
    assert list(layer._reduction_axes) == [0]


def test_the_policy_of_a_layer_is_an_attribute():
    layer = layers.Dense(2)
    setattr(layer, keras_internals.DTYPE_POLICY, keras.DTypePolicy("mixed_bfloat16"))
    assert (layer.compute_dtype, layer.variable_dtype) == ("bfloat16", "float32")
