"""Every layer of the grammar has the arguments, shapes and weights of the layer in Keras."""

import inspect

import keras
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ampcore.models.builders.from_description import keras_layer
from ampspec.layers.catalog import LAYERS, LEFT_OUT, LEFT_OUT_ARGUMENTS
from ampspec.layers.inference import ShapeError
from ampspec.layers.weight_options import Constraint, Initializer, Regularizer, WeightOption
from tests.ampspec.spec.layers.documents import DOCUMENTS


def keras_class(kind):
    return getattr(keras.layers, kind)


def keras_parameters(kind):
    parameters = inspect.signature(keras_class(kind).__init__).parameters
    return {name: one for name, one in parameters.items() if name not in ("self", "kwargs", "name")}


def own_arguments(kind):
    layer = LAYERS[kind]
    base = {"layer", "name", "inputs", "trainable"} | layer.call_fields
    return {"layer" if name == "of" else name: f for name, f in layer.model_fields.items()
            if name not in base}  # fmt: skip


def test_every_layer_of_keras_is_in_the_grammar_or_left_out_with_a_reason():
    kinds = {
        one
        for name in dir(keras.layers)
        if inspect.isclass(one := getattr(keras.layers, name)) and issubclass(one, keras.Layer)
    }
    named = [keras_class(kind) for kind in (*LAYERS, *LEFT_OUT)]
    assert len(set(named)) == len(named)
    assert kinds == set(named)
    assert len(LAYERS) >= 60


def test_every_argument_of_a_layer_is_a_field_or_left_out_with_a_reason():
    unknown_fields, missing_arguments, unknown_call_fields = {}, {}, {}
    for kind, layer in LAYERS.items():
        parameters, fields = keras_parameters(kind).keys(), own_arguments(kind).keys()
        call = inspect.signature(keras_class(kind).call).parameters.keys()
        unknown_fields[kind] = fields - parameters
        missing_arguments[kind] = parameters - fields - LEFT_OUT_ARGUMENTS.keys()
        unknown_call_fields[kind] = layer.call_fields - call
    for names in (unknown_fields, missing_arguments, unknown_call_fields):
        assert {kind: problem for kind, problem in names.items() if problem} == {}


def test_every_left_out_argument_belongs_to_a_layer_of_the_grammar():
    every = {
        name for kind in LAYERS for name in keras_parameters(kind).keys() - own_arguments(kind)
    }
    assert every == LEFT_OUT_ARGUMENTS.keys()


REQUIRED = ("Normalization", "CategoryEncoding", "Discretization")
"""Layers with an argument that Keras does not require."""


def has_keras_default(kind, name, field):
    default = keras_parameters(kind)[name].default
    if field.is_required():
        return default is inspect.Parameter.empty or kind in REQUIRED
    return comparable(field.default, default) == comparable(default, field.default)


def test_a_default_is_that_of_keras():
    different = [
        (kind, name)
        for kind in LAYERS
        for name, field in own_arguments(kind).items()
        if not has_keras_default(kind, name, field)
    ]
    assert different == []


def comparable(value, other):
    """A default in the form that both sides share: a number for all axes, a class of an option."""
    if isinstance(value, WeightOption) or (
        isinstance(value, str) and isinstance(other, WeightOption)
    ):
        name = value if isinstance(value, str) else value.name
        return type(keras.initializers.get(name))
    while isinstance(value, tuple) and len(set(value)) == 1:
        [value] = set(value)
    return value


@pytest.mark.parametrize("option", [Initializer, Regularizer, Constraint])
def test_options_of_weights_have_the_arguments_of_keras(option):
    modules = {
        Initializer: keras.initializers,
        Regularizer: keras.regularizers,
        Constraint: keras.constraints,
    }
    fields = option.model_fields.keys() - {"name"}
    assert {name for taken in option.arguments.values() for name in taken} == fields
    for name, arguments in option.arguments.items():
        kind = getattr(modules[option], name)
        parameters = inspect.signature(kind.__init__).parameters.keys()
        left_out = {"self", "seed", "input_axes", "output_axes", "args", "kwargs"}
        assert set(arguments) == parameters - left_out
        option(name=name)


def test_every_kind_has_documents():
    assert DOCUMENTS.keys() == LAYERS.keys()


@pytest.mark.parametrize("kind", LAYERS)
def test_shapes_and_weights_are_those_of_keras(kind):
    @settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    @given(DOCUMENTS[kind])
    def check(drawn):
        fields, shapes = drawn
        layer = LAYERS[kind].model_validate({"layer": kind, **fields})
        try:
            inference = layer.infer(*shapes)
        except ShapeError:
            assume(False)
        built = keras_layer(kind, layer.keras_arguments, "layer")
        dtype = "int32" if kind in ("Embedding", "CategoryEncoding") else "float32"
        inputs = [keras.Input(shape, dtype=dtype) for shape in shapes]
        output = (
            built(inputs, **layer.call_arguments)
            if layer.input_list
            else built(*inputs, **layer.call_arguments)
        )
        assert output.shape[1:] == inference.output
        assert tuple(tuple(weight.shape) for weight in built.trainable_weights) == inference.weights
        assert (
            tuple(tuple(weight.shape) for weight in built.non_trainable_weights) == inference.state
        )
        assert built.count_params() == inference.parameters

    check()


@pytest.mark.parametrize("kind", LAYERS)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_document_of_a_layer_survives_json(kind, data):
    fields, _ = data.draw(DOCUMENTS[kind])
    layer = LAYERS[kind].model_validate({"layer": kind, **fields})
    assert LAYERS[kind].model_validate(layer.model_dump(mode="json")) == layer
