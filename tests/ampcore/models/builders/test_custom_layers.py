"""Models that are built from the layers of a spec: every kind, shared layers, several inputs."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, assume, given, settings

from ampcore import models
from ampcore.data import Signature
from ampcore.data.examples import Batch
from ampcore.models.builders.from_description import build_network, data_shape
from ampcore.models.supervised import SupervisedTask
from ampcore.precision import layer_policies
from ampspec.errors import InvalidModel
from ampspec.layers.catalog import LAYERS
from ampspec.layers.graph import INPUT, infer
from ampspec.models import model
from ampspec.models.model import Layers
from ampspec.networks import DataShape, describe_networks
from ampspec.precision.precision import Precision
from tests.ampspec.spec.layers.documents import DOCUMENTS, network_of

SIGNATURE = Signature((6,), "float32", 3)


def custom_layers(*layers, **fields):
    return Layers.model_validate({"kind": "layers", "layers": layers, **fields})


def build(spec, signature=SIGNATURE, policy="float32", overrides=()):
    precision = Precision.model_validate({"policy": policy, "overrides": overrides})
    return models.build(spec, signature, layer_policies(precision))


@pytest.mark.filterwarnings("ignore:.*softmax over axis.*:UserWarning")
@pytest.mark.parametrize("kind", LAYERS)
def test_every_kind_of_layer_computes_an_output_of_the_inferred_shape(kind):
    @settings(
        max_examples=2,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    @given(DOCUMENTS[kind].filter(lambda drawn: all(drawn[1])))
    def check(drawn):
        fields, shapes = drawn
        spec = network_of(kind, fields, shapes)
        network = spec.connect()
        found, problems = infer(network, {f"x{i}": one for i, one in enumerate(shapes)}, {})
        assume(not problems)
        description = describe_networks(spec, DataShape((), 1))["model"]
        model = layer_policies(Precision(policy="mixed_bfloat16")).apply(build_network(description))
        examples = [np.zeros((2, *one), description.inputs[0].dtype) for one in shapes]
        named = {f"x{index}": one for index, one in enumerate(examples)}
        output = model(named if len(examples) > 1 else examples[0])
        assert output.shape == (2, *found[network.outputs[0]].output)

    check()


BUILT_IN = {
    "mlp": (model.Mlp(dropout=0.5), Signature((8, 8), "float32", 10)),
    "cnn": (model.Cnn(), Signature((8, 8, 1), "float32", 10)),
    "lenet5": (model.LeNet5(), Signature((8, 8, 1), "float32", 10)),
    "resnet": (model.ResNet(depth=8, width=4), Signature((8, 8, 3), "float32", 10)),
    "lstm_lm": (model.LstmLm(units=8, dim=4), Signature((6,), "int32", 9, 9)),
}


def as_documents(spec, signature):
    """The layers of a built-in model, written as a person would write them."""
    [network] = describe_networks(spec, data_shape(signature)).values()
    names = {network.inputs[0].name: INPUT}
    return [
        {
            "layer": description.layer.layer,
            "name": description.name,
            "inputs": [names.get(name, name) for name in description.inputs],
            **description.keras_arguments,
        }
        for description in network.layers
    ]


@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_built_in_model_written_as_layers_has_the_same_weights_and_outputs(kind):
    spec, signature = BUILT_IN[kind]
    found = []
    for one in (spec, custom_layers(*as_documents(spec, signature))):
        keras.utils.set_random_seed(3)
        found.append(build(one, signature, "mixed_bfloat16").networks[0].model)
    built_in, own = found
    assert [one.path for one in own.weights] == [one.path for one in built_in.weights]
    for mine, theirs in zip(own.variables, built_in.variables, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    x = np.ones((2, *signature.input_shape), signature.input_dtype)
    np.testing.assert_array_equal(own(x), built_in(x))


def test_layer_names_are_the_paths_that_overrides_match():
    spec = custom_layers(
        {"layer": "Dense", "name": "hidden", "units": 4}, {"layer": "Dense", "units": "classes"}
    )
    task = build(spec, policy="mixed_float16", overrides=[{"layers": "^hid", "dtype": "float32"}])
    [network] = task.networks
    assert [one.name for one in network.model.layers[1:]] == ["hidden", "dense"]
    assert [one.compute_dtype for one in network.model.layers[1:]] == ["float32", "float32"]
    task = build(spec, policy="mixed_float16")
    assert task.networks[0].model.get_layer("hidden").compute_dtype == "float16"


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_a_reused_layer_has_its_weights_once_in_every_policy(policy):
    spec = custom_layers(
        {"layer": "Dense", "name": "a", "units": 6, "activation": "relu"},
        {"reuse": "a", "name": "again"},
        {"layer": "Dense", "units": "classes"},
    )
    model = build(spec, policy=policy).networks[0].model
    assert model.count_params() == 6 * 6 + 6 + 6 * 3 + 3
    x = np.ones((2, 6), np.float32)
    layer = model.get_layer("a")
    np.testing.assert_allclose(model(x), model.get_layer("dense")(layer(layer(x))), rtol=1e-2)


def test_several_inputs_and_outputs_are_taken_and_returned_by_name():
    spec = custom_layers(
        {"layer": "Subtract", "name": "difference", "inputs": ["a", "b"]},
        {"layer": "Dense", "name": "logits", "units": "classes"},
        inputs={"a": {"shape": [6]}, "b": {"shape": [6]}},
        outputs=["logits", "difference"],
    )
    model = build_network(describe_networks(spec, DataShape((6,), 3))["model"])
    ones = np.ones((2, 6), np.float32)
    output = model({"a": 2 * ones, "b": ones})
    assert output["logits"].shape == (2, 3)
    np.testing.assert_array_equal(output["difference"], ones)


def test_the_training_loss_has_the_penalties_of_regularizers_and_the_metric_has_not():
    spec = custom_layers(
        {
            "layer": "Dense",
            "units": "classes",
            "kernel_initializer": "ones",
            "kernel_regularizer": {"name": "l2", "l2": 0.5},
            "bias_initializer": {"name": "constant", "value": 2.0},
            "bias_regularizer": {"name": "l1", "l1": 0.25},
        }
    )
    task = build(spec, policy="mixed_float16")
    assert isinstance(task, SupervisedTask)
    batch = Batch(tf.zeros((2, 6)), tf.zeros((2,), tf.int32))
    state = task.weights(), task.non_trainable()
    [loss], _ = task.losses(*state, batch, tf.zeros((2,), tf.int64))
    entropy = float(np.log(3))
    np.testing.assert_allclose(loss, entropy + 0.5 * 18 + 0.25 * 2 * 3, rtol=1e-6)
    np.testing.assert_allclose(task.measure(*state, batch)["loss"], [entropy] * 2, rtol=1e-6)


def test_constraints_and_initializers_are_those_of_keras():
    spec = custom_layers(
        {
            "layer": "Dense",
            "units": "classes",
            "kernel_initializer": {"name": "random_uniform", "minval": 2.0, "maxval": 3.0},
            "kernel_constraint": {"name": "max_norm", "max_value": 1.5, "axis": 0},
        }
    )
    kernel = build(spec).networks[0].model.layers[-1].kernel
    assert isinstance(kernel.constraint, keras.constraints.MaxNorm)
    assert kernel.constraint.max_value == 1.5
    assert np.all((kernel.numpy() >= 2) & (kernel.numpy() <= 3))


def test_a_frozen_layer_is_not_trained():
    spec = custom_layers(
        {"layer": "SpatialDropout1D", "rate": 0.5, "trainable": False},
        {"layer": "Dense", "units": 4, "trainable": False},
        {"layer": "Flatten"},
        {"layer": "Dense", "units": "classes"},
    )
    model = build(spec, Signature((2, 3), "float32", 3), "mixed_float16").networks[0].model
    assert [variable.path for variable in model.trainable_variables] == [
        "dense_1/kernel",
        "dense_1/bias",
    ]


@pytest.mark.parametrize(
    ("layers", "field", "received"),
    [
        ([{"layer": "Dense", "units": 4}], "model.layers/0/units", "[4]"),
        ([{"layer": "Conv1D", "filters": 4, "kernel_size": 2}], "model.layers/0/inputs", "[6]"),
        (
            [{"layer": "Embedding", "input_dim": "vocabulary", "output_dim": 2}],
            "model.layers/0/input_dim",
            "'vocabulary'",
        ),
        ([{"layer": "Add"}], "model.layers/0/inputs", "1"),
    ],
)
def test_layers_that_cannot_take_the_data_are_an_invalid_model(layers, field, received):
    with pytest.raises(InvalidModel) as raised:
        build(custom_layers(*layers))
    assert (raised.value.field, raised.value.received) == (field, received)


def test_declared_inputs_must_be_those_of_the_data():
    spec = custom_layers({"layer": "Dense", "units": 3}, inputs={"x": {"shape": [7]}})
    with pytest.raises(InvalidModel) as raised:
        build(spec)
    assert raised.value.field == "model.inputs/x"


def test_an_error_of_keras_is_an_invalid_model():
    spec = custom_layers(
        {"layer": "Dense", "units": 3, "bias_initializer": "orthogonal"},
    )
    with pytest.raises(InvalidModel, match="layers that Keras can build"):
        build(spec)


def test_a_language_model_has_logits_for_every_position():
    spec = custom_layers(
        {"layer": "Embedding", "input_dim": "vocabulary", "output_dim": 4},
        {"layer": "LSTM", "units": 4, "return_sequences": True},
        {"layer": "Dense", "units": "classes"},
    )
    task = build(spec, Signature((5,), "int32", 7, 7))
    assert task.networks[0].model.output_shape == (None, 5, 7)
