"""Names of weights: the path of the layer and the weight's own name, in every process the same."""

import keras
import pytest
from keras import layers

from ampcore.conversion import layers_spec_from_keras
from ampcore.models.builders.from_description import build_network
from ampcore.models.task import Network
from ampcore.models.weight_names import named_weights, weights_of_model
from ampspec.models.model import Layers
from ampspec.networks import DataShape, describe_networks
from ampspec.tensor_header import read_weights_header


def names(model):
    return [weight.name for weight in weights_of_model(model)]


def sequence_model():
    inputs = keras.Input((5, 4))
    x = layers.Bidirectional(layers.LSTM(2, return_sequences=True, name="lstm"), name="both")(
        inputs
    )
    x = layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    x = layers.BatchNormalization(name="norm")(layers.Dropout(0.5)(x))
    return keras.Model(inputs, layers.Dense(3, name="dense")(x))


def test_names_have_the_path_of_inner_layers_and_no_number_of_the_process():
    first = names(sequence_model())
    assert first == names(sequence_model())
    assert {"both/forward_lstm/lstm_cell/kernel", "both/backward_lstm/lstm_cell/bias"} < {*first}
    assert {"attention/query/kernel", "norm/moving_mean", "dense/kernel"} < {*first}
    assert len(first) == len(sequence_model().weights)


def test_seeds_of_dropout_are_no_weights():
    model = sequence_model()
    assert len(model.variables) > len(names(model)) == len(model.weights)


def test_a_shared_layer_is_named_once():
    inputs, shared = keras.Input((4,)), layers.Dense(4, name="shared")
    model = keras.Model(inputs, shared(shared(inputs)))
    assert names(model) == ["shared/kernel", "shared/bias"]


def test_layers_of_a_model_inside_have_its_path():
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="dense")], name="tower")
    inputs = keras.Input((4,))
    assert names(keras.Model(inputs, inner(inputs))) == ["tower/dense/kernel", "tower/dense/bias"]


def test_two_weights_of_a_layer_with_one_name_are_numbered():
    class Twice(layers.Layer):
        def build(self, shape):
            self.first = self.add_weight(name="w", shape=(1,))
            self.second = self.add_weight(name="w", shape=(1,))

        def call(self, x):
            return x * self.first * self.second

    inputs = keras.Input((1,))
    assert names(keras.Model(inputs, Twice(name="own")(inputs))) == ["own/w", "own/w_1"]


def test_weights_of_several_networks_begin_with_the_name_of_the_network(gan_networks):
    found = named_weights(gan_networks)
    assert {weight.name.split("/")[0] for weight in found} == {"a", "b"}
    assert {weight.path for weight in found} == {"dense"}


@pytest.fixture
def gan_networks():
    def model():
        return keras.Sequential([keras.Input((2,)), layers.Dense(1, name="dense")])

    return [Network("a", model()), Network("b", model())]


def test_a_converted_model_has_the_names_of_the_model_that_a_worker_builds(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((5, 4)),
            layers.Bidirectional(layers.GRU(2, return_sequences=True)),
            layers.LayerNormalization(),
            layers.Dense(3),
        ]
    )
    converted = layers_spec_from_keras(model)
    file = tmp_path / "weights"
    file.write_bytes(converted.weights)
    with file.open("rb") as stream:
        found = read_weights_header(stream, len(converted.weights))
    network = describe_networks(Layers.model_validate(converted.model), DataShape((5, 4), 1))
    built = build_network(network["model"])
    assert {name: tuple(one.shape) for name, one in found.items()} == {
        weight.name: tuple(weight.variable.shape) for weight in weights_of_model(built)
    }
    assert len(found) == len(model.weights)
