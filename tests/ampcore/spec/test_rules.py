import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ampcore.spec.data import DataSpec
from ampcore.spec.model import ModelSpec
from ampcore.spec.optimizer import Adam
from ampcore.spec.rules import DATA_OF_MODEL, RULES
from ampcore.spec.training import Runtime

FIELDS = {
    "keras_application": {"name": "VGG16"},
    "layers": {"layers": [{"layer": "Flatten"}]},
    "npz": {"path": "a.npz"},
    "text": {"path": "a"},
}


def part(union, given):
    """The validated part of a spec; a kind alone is completed with its required fields."""
    document = {"kind": given} | FIELDS.get(given, {}) if isinstance(given, str) else given
    return TypeAdapter(union).validate_python(document)


def found(model="mlp", data="digits", **parts):
    """The problems by pointer; the rest of the spec is valid."""
    parts |= {"model": part(ModelSpec, model), "data": part(DataSpec, data)}
    return {problem.pointer: problem for rule in RULES for problem in rule(parts)}


@pytest.mark.parametrize("model", DATA_OF_MODEL)
def test_each_kind_of_model_accepts_only_its_kinds_of_data(model):
    kinds = ["digits", "synthetic", "npz", "text", "synthetic_clicks"]
    taken = [data for data in kinds if "/data/kind" not in found(model, data)]
    assert taken == [kind for kind in kinds if kind in DATA_OF_MODEL[model]]


def test_the_message_about_unsupported_data_names_the_supported_kinds():
    problem = found("lstm_lm", "digits")["/data/kind"]
    assert problem.code == "model_cannot_take_data"
    assert problem.detail == "Expected text for the model lstm_lm; received digits."


@pytest.mark.parametrize(
    ("model", "shape", "pointer"),
    [
        ("gan", [28, 28, 1], None),
        ("gan", [28, 30, 1], "/model/kind"),
        ("gan", [4, 4], "/model/discriminator"),
        ("gan", [784], "/data/shape"),
        ("resnet", [784], "/data/shape"),
        ("resnet", [1, 1, 3], None),
        ("keras_application", [32, 32, 3], None),
        ("keras_application", [31, 32, 3], "/model/name"),
        ({"kind": "keras_application", "name": "Xception"}, [70, 70, 3], "/model/name"),
        ("mlp", [784], None),
    ],
)
def test_the_input_shape_must_suit_the_model(model, shape, pointer):
    problems = found(model, {"kind": "synthetic", "shape": shape})
    assert list(problems) == ([] if pointer is None else [pointer])
    assert all(problem.code == "model_cannot_take_data" for problem in problems.values())


@pytest.mark.parametrize(
    ("model", "data", "pointer"),
    [
        ({}, {}, None),
        ({"vocabulary": 2000}, {}, None),
        ({"vocabulary": 1000}, {}, "/model/vocabulary"),
        ({"slots": 9}, {}, "/model/slots"),
        ({}, {"nnz": 4}, "/model/nnz"),
        ({"vocabulary": 9}, {"vocabulary": 9}, "/data/vocabulary"),
    ],
)
def test_the_embedding_must_match_the_keys_of_the_data(model, data, pointer):
    problems = found({"kind": "embedding"} | model, {"kind": "synthetic_clicks"} | data)
    assert list(problems) == ([] if pointer is None else [pointer])


def test_a_batch_larger_than_the_training_examples_is_refused():
    data = {"kind": "synthetic_clicks", "examples": 100, "batch_size": 81}
    assert found("embedding", data)["/data/batch_size"].code == "batch_too_large"


@given(st.integers(8, 1202))
def test_the_depth_of_a_resnet_must_be_6n_plus_2(depth):
    problems = found({"kind": "resnet", "depth": depth})
    assert ("/model/depth" in problems) == (depth not in range(8, 1203, 6))
    if problems:
        near, far = [
            int(word) for word in problems["/model/depth"].expected.split() if word.isdecimal()
        ]
        assert near < depth < far == near + 6


@given(st.integers(1, 128), st.integers(1, 1024))
def test_the_number_of_heads_must_divide_the_dimension(heads, dim):
    problems = found({"kind": "transformer_lm", "heads": heads, "dim": dim}, "text")
    assert ("/model/dim" in problems) == (dim % heads != 0)


def test_an_optimizer_for_an_unknown_network_is_refused():
    optimizers = {"generator": Adam(), "discriminater": Adam()}
    [(pointer, problem)] = found("gan", "digits", optimizers=optimizers).items()
    assert pointer == "/optimizers/discriminater"
    assert problem.code == "unknown_network"
    assert problem.suggestion == "discriminator"
    assert "/optimizers/model" in found("mlp", "digits", optimizers={"model": Adam()})
    assert not found("mlp", "digits", optimizers={})


def test_more_than_one_device_is_refused():
    problem = found(runtime=Runtime(devices=2))["/runtime/devices"]
    assert problem.code == "not_available"
    assert problem.detail.startswith("Expected 1:")
    assert found(runtime=Runtime()) == {}


def test_rules_ignore_missing_parts():
    assert [problem for rule in RULES for problem in rule({})] == []


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"kind": "npz"}, "/data/path"),
        ({"kind": "npz", "path": ""}, "/data/path"),
        ({"kind": "npz", "path": "a", "dataset": "b"}, "/data/dataset"),
        ({"kind": "npz", "dataset": "birds@3"}, None),
        ({"kind": "npz", "path": "a.npz"}, None),
    ],
)
def test_data_from_a_file_name_a_path_or_a_dataset(data, pointer):
    assert list(found(data=data)) == ([pointer] if pointer else [])
