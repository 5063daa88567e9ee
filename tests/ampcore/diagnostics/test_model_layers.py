"""The layer table of a spec equals that of the Keras model that is built from it."""

import re
from dataclasses import replace
from types import SimpleNamespace

import keras
import pytest
from hypothesis import HealthCheck, assume, given, settings
from keras import layers

from ampcore import models
from ampcore.conversion import layer as conversion
from ampcore.data import Signature
from ampcore.diagnostics.model_layers import tables_from_keras
from ampcore.models import Network
from ampcore.models.builders.from_description import build_network, data_shape
from ampcore.precision import layer_policies
from ampspec.layers.catalog import LAYERS
from ampspec.layers.graph import infer
from ampspec.models import model
from ampspec.networks import NETWORKS, DataShape, describe_networks
from ampspec.precision.precision import Precision
from ampspec.preflight.layer_rows import table_from_description
from ampspec.preflight.spec_tables import tables_from_model_spec
from tests.ampspec.spec.layers.documents import DOCUMENTS, network_of

HEALTH = [HealthCheck.filter_too_much, HealthCheck.too_slow]
MIXED = Precision(policy="mixed_float16")
TEXT = Signature((16,), "int32", 50, 50)


def images(*shape, classes=10):
    return Signature(shape, "float32", classes)


SEQUENCES = {"return_sequences": True}


def own_layers(*documents):
    return model.Layers.model_validate({"kind": "layers", "layers": documents})


KINDS = {
    "mlp": (model.Mlp(dropout=0.5), images(28, 28)),
    "mlp of vectors": (model.Mlp(hidden=()), images(64)),
    "cnn": (model.Cnn(), images(28, 28, 1)),
    "cnn without dropout": (model.Cnn(dropout=0.0, dense=()), images(21, 24, classes=7)),
    "lenet5": (model.LeNet5(), images(32, 32, 1)),
    "lenet5 resized": (model.LeNet5(), images(8, 8, 1)),
    "resnet": (model.ResNet(depth=14, width=12), images(31, 32, 3)),
    "gan": (model.Gan(generator=(8, 16, 8), discriminator=(8, 4)), images(12, 8, 3)),
    "embedding": (model.EmbeddingModel(hidden=(16,)), Signature((10, 5), "int32", 2, 1024)),
    "lstm_lm": (model.LstmLm(layers=2, units=24), TEXT),
    "transformer_lm": (model.TransformerLm(), TEXT),
    "layers of images": (
        own_layers(
            {"layer": "Rescaling", "scale": 0.5},
            {"layer": "Conv2D", "name": "a", "filters": 4, "kernel_size": 3, "padding": "same"},
            {"layer": "BatchNormalization", "trainable": False},
            {"layer": "Conv2D", "name": "b", "filters": 4, "kernel_size": 3, "padding": "same"},
            {"reuse": "b"},
            {"layer": "Add", "inputs": ["a", "b_1"]},
            {"layer": "SeparableConv2D", "filters": 6, "kernel_size": [3, 2], "strides": 2},
            {"layer": "Conv2DTranspose", "filters": 3, "kernel_size": 3, "strides": 2},
            {"layer": "GlobalAveragePooling2D"},
            {"layer": "Dense", "units": "classes", "activation": "softmax"},
            {"layer": "Reshape", "target_shape": [10]},
        ),
        images(9, 12, 3),
    ),
    "layers of videos": (
        own_layers(
            {"layer": "TimeDistributed", "of": {"layer": "Conv2D", "filters": 4, "kernel_size": 3}},
            {"layer": "TimeDistributed", "of": {"layer": "BatchNormalization"}},
            {"layer": "TimeDistributed", "of": {"layer": "Flatten"}},
            {"layer": "GRU", "units": 6, **SEQUENCES},
            {"layer": "TimeDistributed", "of": {"layer": "Dense", "units": "classes"}},
            {"layer": "GlobalAveragePooling1D"},
        ),
        images(3, 9, 12, 2),
    ),
    "layers of sequences": (
        own_layers(
            {"layer": "Embedding", "input_dim": "vocabulary", "output_dim": 6},
            {"layer": "Bidirectional", "of": {"layer": "LSTM", "units": 4, **SEQUENCES}},
            {"layer": "GRU", "units": 6, **SEQUENCES},
            {"layer": "MultiHeadAttention", "name": "self", "num_heads": 2, "key_dim": 3},
            {
                "layer": "GroupQueryAttention",
                "name": "cross",
                "head_dim": 2,
                "num_query_heads": 4,
                "num_key_value_heads": 2,
                "inputs": ["self", "gru"],
            },
            {"layer": "AdditiveAttention", "inputs": ["cross", "gru", "self"]},
            {"layer": "EinsumDense", "equation": "abc,cd->abd", "output_shape": [16, 5]},
            {"layer": "Dense", "units": "classes"},
        ),
        TEXT,
    ),
}


class OwnDense(layers.Dense):
    pass


class WithoutConfig(layers.Dense):
    def get_config(self):
        raise NotImplementedError


class WithOtherConfig(layers.MultiHeadAttention):
    def get_config(self):
        return {"name": self.name}


class BrokenInitializer(keras.initializers.Ones):
    def get_config(self):
        raise AttributeError("no attribute 'scale'")


def built(spec, signature, precision):
    policies = layer_policies(precision)
    return tables_from_keras(models.build(spec, signature, policies), policies)


def comparable(layer):
    # Keras numbers the softmax and dropout of attention layers per process.
    parts = tuple(re.sub(r"_\d+$", "", part) for part in layer.parts)
    # The name of the class in its module differs from the public one.
    kind = layer.kind.replace("GroupedQuery", "GroupQuery")
    return replace(layer, kind=kind, parts=parts, dimensions=())


@pytest.mark.parametrize("kind", KINDS)
def test_the_layer_table_of_a_spec_equals_that_of_the_keras_model(kind):
    spec, signature = KINDS[kind]
    predicted = tables_from_model_spec(spec, data_shape(signature))
    found = built(spec, signature, MIXED)
    assert [table.network for table in predicted] == [table.network for table in found]
    for predicted_table, table in zip(predicted, found, strict=True):
        mine = {
            layer.path: comparable(layer)
            for layer in predicted_table.with_policy(MIXED, MIXED.policy).layers
        }
        real = {layer.path: comparable(layer) for layer in table.layers}
        assert mine == real


@pytest.mark.parametrize("kind", LAYERS)
def test_the_row_of_every_kind_of_layer_equals_that_of_the_keras_layer(kind):
    @settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=HEALTH)
    @given(DOCUMENTS[kind])
    def check(drawn):
        spec = network_of(kind, *drawn)
        shapes = {name: one.shape for name, one in spec.inputs.items()}
        assume(not infer(spec.connect(), shapes, {})[1])
        [config] = describe_networks(spec, DataShape((), 1)).values()
        [mine] = table_from_description("model", config).with_policy(MIXED, MIXED.policy).layers
        policies = layer_policies(MIXED)
        network = Network("model", policies.apply(build_network(config)))
        [real] = tables_from_keras(SimpleNamespace(networks=[network]), policies)[0].layers
        assert comparable(mine) == comparable(real)

    check()


def test_every_architecture_is_compared():
    assert {spec.kind for spec, _ in KINDS.values()} == set(NETWORKS)
    assert set(NETWORKS) == set(models.BUILDERS) - {"keras_application", "package"}


def test_dimensions_match_those_of_the_spec():
    spec, signature = KINDS["lstm_lm"]
    [predicted] = tables_from_model_spec(spec, DataShape(signature.input_shape, signature.classes))
    [found] = built(spec, signature, MIXED)
    sizes = {layer.path: {d.name: d.size for d in layer.dimensions} for layer in found.layers}
    for layer in predicted.layers:
        for dimension in layer.dimensions:
            assert sizes[layer.path].get(dimension.name, dimension.size) == dimension.size


def test_a_keras_application_has_its_published_parameters_and_multiply_adds():
    spec = model.KerasApplication(name="MobileNet")
    [table] = built(spec, images(224, 224, 3, classes=1000), MIXED)
    # Howard et al. 2017, arXiv:1704.04861, table 8: 4.2 million parameters, 569 million
    # multiply-adds.
    assert table.parameters == pytest.approx(4.2e6, rel=0.02)
    assert table.multiply_adds == pytest.approx(569e6, rel=0.01)


@pytest.mark.parametrize(
    ("layer", "shape", "multiply_adds"),
    [
        (layers.Conv1D(4, 3), (10, 2), 8 * 3 * 2 * 4),
        (layers.Conv2D(8, 3, groups=2, padding="same"), (4, 4, 4), 16 * 9 * 2 * 8),
        (layers.Conv2DTranspose(2, 3, strides=2), (4, 4, 3), 16 * 9 * 3 * 2),
        (layers.DepthwiseConv2D(3), (5, 5, 4), 9 * 9 * 4),
        (layers.SeparableConv2D(8, 3), (5, 5, 4), 9 * (9 * 4 + 4 * 8)),
        (layers.EinsumDense("abc,cd->abd", (5, 7)), (5, 3), 5 * 3 * 7),
        (layers.EinsumDense("...x,xy->...y", 7), (3,), 3 * 7),
        (layers.GRU(4), (5, 3), 5 * (3 + 4) * 3 * 4),
        (layers.SimpleRNN(4), (5, 3), 5 * (3 + 4) * 4),
        (layers.ReLU(), (5, 3), 0),
        (layers.Bidirectional(layers.SimpleRNN(4)), (5, 3), 2 * 5 * (3 + 4) * 4),
        (layers.ConvLSTM1D(2, 3), (4, 8, 3), 4 * 6 * (3 * 3 * 8 + 3 * 2 * 8)),
        (layers.Conv2D(8, 3, data_format="channels_first"), (4, 6, 5), 4 * 3 * 9 * 4 * 8),
        (WithoutConfig(4), (3,), 12),
        (layers.Dense(4, kernel_initializer=BrokenInitializer()), (3,), 0),
        (OwnDense(4), (3,), 12),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else None,
)
def test_the_multiply_adds_of_a_layer_match_its_definition(layer, shape, multiply_adds):
    inputs = keras.Input(shape)
    network = Network("model", keras.Model(inputs, layer(inputs)))

    class SingleNetworkTask:
        networks = (network,)

    [table] = tables_from_keras(SingleNetworkTask, layer_policies(Precision()))
    assert table.multiply_adds == multiply_adds


def test_an_attention_with_a_config_of_its_own_is_counted():
    inputs = keras.Input((3, 8))
    model = keras.Model(inputs, WithOtherConfig(2, 4)(inputs, inputs))
    networks = [Network("model", model)]
    [table] = tables_from_keras(SimpleNamespace(networks=networks), layer_policies(Precision()))
    assert table.multiply_adds == 4 * 3 * 8 * 8 + 2 * 3 * 3 * 8


def test_an_error_in_the_conversion_of_a_layer_is_not_hidden(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(conversion, "_value", fail)
    with pytest.raises(ZeroDivisionError):
        conversion.layer_for_shapes(layers.Dense(4))


@pytest.mark.parametrize("layer", [layers.Dense(10**9), layers.Lambda(lambda x: x)])
def test_a_layer_outside_of_the_grammar_has_no_shapes(layer):
    assert conversion.layer_for_shapes(layer) is None


def test_the_inputs_of_an_attention_are_query_value_and_key_in_any_order():
    query, value = keras.Input((3, 8)), keras.Input((5, 8))
    attention = layers.MultiHeadAttention(2, 4, use_bias=False)
    network = Network("model", keras.Model([value, query], attention(value=value, query=query)))
    [table] = tables_from_keras(SimpleNamespace(networks=[network]), layer_policies(Precision()))
    projections = 2 * (3 + 5) * 8 * 8
    assert table.multiply_adds == projections + 2 * 3 * 5 * 8


def test_dtypes_are_read_from_the_built_layers():
    overrides = [{"layers": "conv_1", "dtype": "float32"}]
    [table] = built(*KINDS["cnn"], Precision(policy="float16", overrides=overrides))
    dtypes = {layer.path: (layer.compute_dtype, layer.variable_dtype) for layer in table.layers}
    assert dtypes["conv_1"] == dtypes["predictions"] == ("float32", "float32")
    assert dtypes["conv_2"] == ("float16", "float16")
