import pytest

from ampspec.models import model
from ampspec.networks import NETWORKS, DataShape, describe_networks
from ampspec.networks.description import NetworkBuilder

MODELS = [
    (model.Mlp(dropout=0.5), (28, 28)),
    (model.Cnn(), (28, 28)),
    (model.LeNet5(), (8, 8, 3)),
    (model.ResNet(depth=14, width=4), (16, 16, 3)),
    (model.Gan(), (28, 28)),
    (model.EmbeddingModel(hidden=(8,)), (10, 5)),
    (model.LstmLm(layers=2), (16,)),
    (model.TransformerLm(layers=2), (16,)),
    (
        model.Layers(
            layers=[
                {"layer": "Add", "inputs": ["a", "a_1"]},
                {"layer": "Dense", "name": "a", "units": 4, "inputs": ["input"]},
                {"reuse": "a", "inputs": ["a"]},
            ],
            outputs=["add"],
        ),
        (4,),
    ),
]


def test_every_kind_of_network_is_tested():
    assert {spec.kind for spec, _ in MODELS} == set(NETWORKS)


@pytest.mark.parametrize(("spec", "example"), MODELS, ids=lambda value: getattr(value, "kind", ""))
def test_layer_names_are_unique_and_inputs_are_earlier_layers(spec, example):
    for network in describe_networks(spec, DataShape(example, 10)).values():
        built = {one.name for one in network.inputs}
        for layer in network.layers:
            assert layer.name not in built
            assert set(layer.inputs) <= built
            assert layer.shares is None or layer.shares in built
            built.add(layer.name)
        assert set(network.outputs) <= built
        assert network.output_layers


@pytest.mark.parametrize(("spec", "example"), MODELS, ids=lambda value: getattr(value, "kind", ""))
def test_the_networks_are_those_that_the_spec_names(spec, example):
    assert tuple(describe_networks(spec, DataShape(example, 10))) == spec.networks


def test_the_input_of_a_layer_is_the_previous_layer_unless_inputs_are_named():
    builder = NetworkBuilder("model", "x", (4,))
    first = builder.add("Dense", "a", units=4)
    builder.add("Dense", "b", units=4, spec_fields={"inputs": None, "units": "/model/hidden/1"})
    builder.add("Add", "sum", first, "b")
    inputs = {layer.name: layer.inputs for layer in builder.network().layers}
    assert inputs == {"a": ("x",), "b": ("a",), "sum": ("a", "b")}
    assert builder.network().layers[1].spec_fields == {"units": "/model/hidden/1"}
