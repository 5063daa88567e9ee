"""A Keras model becomes layers of a spec that compute the same, or names what has no place."""

import json
import re

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from keras import layers

import ampcore
from ampcore.conversion import NotConvertible, layers_spec_from_keras, model
from ampcore.conversion.layer import layer_of_spec
from ampcore.models.builders.from_description import build_network, keras_layer
from ampspec.jobs import JobSpec
from ampspec.layers.catalog import LAYERS
from ampspec.layers.inference import ShapeError
from ampspec.models.model import Layers
from ampspec.networks import DataShape, describe_networks
from tests.ampspec.spec.layers.documents import DOCUMENTS


def sequential(shape, *made):
    return keras.Sequential([keras.Input(shape), *made])


def image_model():
    inputs = keras.Input((8, 8, 1), name="image")
    x = layers.Conv2D(4, 3, padding="same", activation="relu", kernel_regularizer="l2")(inputs)
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(x))
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(x + y))
    return keras.Model(inputs, layers.Dense(10, activation="softmax", name="classes")(x))


def two_towers():
    first, second = keras.Input((6, 4), name="a"), keras.Input((7, 4), name="b")
    shared = layers.Dense(8, name="shared")
    found = layers.MultiHeadAttention(2, 4, name="cross")(
        query=shared(first), value=shared(second), use_causal_mask=True
    )
    return keras.Model([first, second], [layers.GlobalMaxPooling1D()(found), found])


def masked_sequence():
    return sequential(
        (None,),
        layers.Embedding(20, 8, mask_zero=True, name="embedding"),
        layers.Bidirectional(layers.LSTM(4, return_sequences=True), name="bidirectional"),
        layers.GRU(5, name="gru"),
        layers.Dense(3, name="dense"),
        layers.Softmax(),
    )


def video():
    return sequential(
        (4, 8, 8, 3),
        layers.TimeDistributed(layers.Conv2D(4, 3, activation="relu"), name="conv"),
        layers.TimeDistributed(layers.Flatten(), name="flat"),
        layers.LSTM(5, name="lstm"),
    )


def siamese():
    tower = sequential(
        (8, 8, 3), layers.Conv2D(4, 3, name="c"), layers.BatchNormalization(name="b")
    )
    tower.name = "tower"
    first, second = keras.Input((8, 8, 3)), keras.Input((8, 8, 3))
    return keras.Model([first, second], layers.Subtract()([tower(first), tower(second)]))


def of_job(section, data):
    return JobSpec.parse({"model": section, "data": data})


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (
            image_model,
            "Conv2D Conv2D BatchNormalization Add ReLU GlobalAveragePooling2D Dense",
        ),
        (two_towers, "Dense reuse MultiHeadAttention GlobalMaxPooling1D"),
        (masked_sequence, "Embedding Bidirectional GRU Dense Softmax"),
        (siamese, "Conv2D BatchNormalization reuse reuse Subtract"),
        (video, "TimeDistributed TimeDistributed LSTM"),
    ],
)
def test_a_model_becomes_a_section_that_is_a_valid_spec(make, kinds):
    section, _ = layers_spec_from_keras(make())
    assert [one.get("layer", "reuse") for one in section["layers"]] == kinds.split()
    assert Layers.model_validate(json.loads(json.dumps(section))).connect().problems == ()


def test_the_layers_of_a_model_inside_have_its_name_as_a_prefix():
    section, _ = layers_spec_from_keras(siamese())
    assert [one["name"] for one in section["layers"][:3]] == ["tower.c", "tower.b", "tower.c_1"]


def test_a_job_can_be_made_of_the_section():
    section, _ = layers_spec_from_keras(image_model(), logits=True)
    spec = of_job(section, {"kind": "digits"})
    assert spec.model.layers[-1].activation is None
    assert spec.model.inputs["image"].shape == (8, 8, 1)


def test_the_softmax_of_each_output_is_left_out_and_the_outputs_keep_their_names():
    inputs = keras.Input((4,), name="x")
    kind = layers.Dense(3, activation="softmax", name="kind")(inputs)
    colour = layers.Softmax(name="colour")(layers.Dense(2)(inputs))
    model = keras.Model(inputs, {"kind": kind, "colour": colour})
    section, _ = layers_spec_from_keras(model, logits=True)
    by_name = {layer["name"]: layer for layer in section["layers"]}
    assert set(section["outputs"]) == {"kind", "colour"}
    assert "activation" not in by_name["kind"]
    assert (by_name["colour"]["layer"], by_name["colour"]["activation"]) == ("Activation", "linear")


def test_a_section_without_a_fixed_shape_takes_that_of_the_data():
    section, _ = layers_spec_from_keras(masked_sequence(), logits=True)
    assert section["inputs"] == {}
    assert section["layers"][-1]["layer"] == "Dense"
    of_job(section, {"kind": "text", "path": "a.txt"})


def tensors(data):
    """The arrays of a safetensors file, read as its format says."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    header.pop("__metadata__")
    found = {}
    for name, one in header.items():
        begin, end = one["data_offsets"]
        assert one["dtype"] == "F32"
        found[name] = np.frombuffer(body[begin:end], np.float32).reshape(one["shape"])
    assert max(one["data_offsets"][1] for one in header.values()) == len(body)
    return found


def test_the_weights_are_named_by_layer_and_make_the_spec_compute_what_the_model_does():
    original = masked_sequence()
    section, weights = layers_spec_from_keras(original)
    arrays = tensors(weights)
    assert set(arrays) == {
        "embedding/embeddings",
        *(
            f"bidirectional/{way}_lstm/lstm_cell/{name}"
            for way in ("forward", "backward")
            for name in ("kernel", "recurrent_kernel", "bias")
        ),
        *(f"gru/gru_cell/{name}" for name in ("kernel", "recurrent_kernel", "bias")),
        "dense/kernel",
        "dense/bias",
    }
    data = DataShape((9,), 3, dtype="int32")
    built = build_network(describe_networks(Layers.model_validate(section), data)["model"])
    for layer in built.layers:
        for variable in layer.weights:
            variable.assign(arrays[re.sub(r"_\d+(?=/)", "", variable.path)])
    x = np.random.default_rng(1).integers(0, 20, (5, 9), np.int32)
    np.testing.assert_allclose(built(x), original(x), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "layer", "reason"),
    [
        (lambda: sequential((4,), layers.Lambda(lambda x: x, name="own")), "own", "Python code"),
        (lambda: sequential((4,), OwnDense(3, name="own")), "own", "OwnDense is a class"),
        (
            lambda: sequential((4,), layers.Dense(3, activation=own_activation, name="own")),
            "own",
            "activation is code of your own",
        ),
        (
            lambda: sequential((4,), layers.Dense(3, kernel_initializer=OwnOnes(), name="own")),
            "own",
            "kernel_initializer OwnOnes is none of",
        ),
        (
            lambda: sequential((4, 4, 3), layers.Conv2D(3, 2, data_format="channels_first")),
            "conv2d",
            "data_format='channels_first'",
        ),
        (
            lambda: sequential((4,), layers.Dense(3, activity_regularizer="l2", name="own")),
            "own",
            "activity_regularizer",
        ),
        (lambda: sequential((4,), layers.Dense(2**21, name="wide")), "wide", "units"),
        (
            lambda: sequential((5, 4, 3), layers.TimeDistributed(layers.GRU(2), name="own")),
            "own",
            "TimeDistributed, of: expected one of the layers Dense",
        ),
        (
            lambda: sequential(
                (5, 4),
                layers.Bidirectional(
                    layers.LSTM(2),
                    backward_layer=layers.LSTM(2, activation="relu", go_backwards=True),
                    name="own",
                ),
            ),
            "own",
            "backward_layer has other arguments",
        ),
        (
            lambda: keras.Model(x := keras.Input((4,)), keras.ops.sin(x)),
            "sin",
            "operation Sin",
        ),
        (lambda: keras.Sequential([layers.Dense(3)]), None, "knows its input shape"),
        (lambda: OwnModel(name=None), None, "OwnModel has no graph"),
        (
            lambda: keras.Model(
                x := keras.Input((4, 3)), layers.LSTM(3, name="own", return_state=True)(x)[0]
            ),
            "own",
            "return_state=True",
        ),
    ],
)
def test_what_has_no_place_in_the_grammar_is_named_with_the_reason(make, layer, reason):
    keras.backend.clear_session(free_memory=False)
    with pytest.raises(NotConvertible) as raised:
        layers_spec_from_keras(make())
    assert raised.value.layer == layer
    assert reason in raised.value.reason


def passing_on():
    inputs = keras.Input((3,))
    return keras.Model(inputs, inputs)


def joining(count):
    inputs = [keras.Input((2,)) for _ in range(count)]
    return keras.Model(inputs, layers.Concatenate()(inputs))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: sequential((), layers.ReLU()), "shape: Expected a list of 1 to 6 integers"),
        (lambda: sequential((3,), layers.Softmax()), "/layers: Expected at least 1"),
        (passing_on, "/layers: Expected at least 1"),
        (lambda: joining(17), "/inputs: Expected at most 16"),
    ],
)
def test_a_model_outside_of_the_bounds_of_a_spec_is_refused_with_the_field(make, reason):
    with pytest.raises(NotConvertible, match=reason):
        layers_spec_from_keras(make(), logits=True)


class OwnDense(layers.Dense):
    pass


class OwnOnes(keras.initializers.Ones):
    pass


class OwnModel(keras.Model):
    def call(self, x):
        return x


def own_activation(x):
    return x


def test_a_conversion_that_computes_something_else_is_refused(monkeypatch):
    monkeypatch.setattr(model, "_copy_weights", lambda built, graph: {"a": np.zeros(1, np.float32)})
    with pytest.raises(NotConvertible, match="computes other outputs"):
        layers_spec_from_keras(image_model())


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_a_model_with_a_precision_policy_is_compared_within_its_precision(policy):
    rng = np.random.default_rng(0)
    original = sequential(
        (8, 8, 1),
        layers.Conv2D(16, 3, activation="relu", dtype=policy),
        layers.Flatten(dtype=policy),
        layers.Dense(10, dtype=policy),
    )
    original.set_weights([rng.normal(size=one.shape, scale=0.2) for one in original.weights])
    _, weights = layers_spec_from_keras(original)
    assert {array.dtype for array in tensors(weights).values()} == {np.dtype(np.float32)}


def test_inputs_and_outputs_by_name_are_converted():
    given = {"b": keras.Input((4,), name="b"), "a": keras.Input((4,), name="a")}
    difference = layers.Subtract(name="difference")([given["a"], given["b"]])
    outputs = {"z": layers.Dense(2, name="z")(difference), "d": difference}
    section, _ = layers_spec_from_keras(keras.Model(given, outputs))
    assert set(section["inputs"]) == {"a", "b"}
    assert set(section["outputs"]) == {"z", "difference"}


def test_learned_statistics_of_a_normalization_become_numbers():
    normalization = layers.Normalization()
    normalization.adapt(np.random.default_rng(0).random((50, 3)) * 9)
    section, _ = layers_spec_from_keras(sequential((3,), normalization, layers.Dense(2)))
    assert len(section["layers"][0]["mean"]) == 3


def test_the_conversion_is_public():
    assert ampcore.layers_spec_from_keras is layers_spec_from_keras
    assert ampcore.NotConvertible is NotConvertible


@pytest.mark.parametrize("name", ["MobileNetV2", "EfficientNetB0"])
def test_an_architecture_of_keras_applications_can_be_converted(name):
    architecture = getattr(keras.applications, name)
    original = architecture(weights=None, input_shape=(32, 32, 3), classes=4)
    section, weights = layers_spec_from_keras(original, logits=True)
    of_job(section, {"kind": "synthetic", "shape": [32, 32, 3], "classes": 4})
    assert len(weights) > 4 * original.count_params()


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_that_was_built_from_the_grammar_converts_back_to_it(kind):
    @settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    @given(DOCUMENTS[kind])
    def check(drawn):
        fields, shapes = drawn
        layer = LAYERS[kind].model_validate({"layer": kind, **fields})
        try:
            output = layer.infer(*shapes).output
        except ShapeError:
            assume(False)
        built = keras_layer(kind, layer.keras_arguments, "layer")
        back = layer_of_spec(built, (None, *output))
        again = keras_layer(kind, back.keras_arguments, "layer")
        assert again.get_config() == built.get_config()

    check()
