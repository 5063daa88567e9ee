import math

import pytest
from pydantic import TypeAdapter

from ampspec.jobs import JobSpec
from ampspec.models.model import ModelSpec
from ampspec.networks import DataShape
from ampspec.preflight import NotYetKnown, tables_from_spec
from ampspec.preflight.data import total_steps
from ampspec.preflight.spec_tables import tables_from_model_spec


@pytest.fixture
def spec_tables():
    """Makes the layer tables of a model for examples of a shape."""

    def make(kind, shape=(28, 28, 1), classes=10, **fields):
        spec = TypeAdapter(ModelSpec).validate_python({"kind": kind, **fields})
        return tables_from_model_spec(spec, DataShape(shape, classes))

    return make


@pytest.mark.parametrize(
    ("model", "shape", "parameters"),
    [
        ({"kind": "cnn"}, (28, 28, 1), [1_199_882]),
        ({"kind": "lenet5"}, (32, 32, 1), [61_706]),
        ({"kind": "mlp", "hidden": [4096, 4096]}, (784,), [20_037_642]),
        ({"kind": "gan"}, (28, 28, 1), [477_713, 245_169]),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else None,
)
def test_parameter_counts_are_the_published_ones(spec_tables, model, shape, parameters):
    assert [table.parameters for table in spec_tables(shape=shape, **model)] == parameters


@pytest.mark.parametrize(("placement", "rows"), [("replicated", 1023), ("sharded", 256)])
def test_a_rank_has_its_share_of_a_sharded_table(placement, rows):
    model = {"kind": "embedding", "vocabulary": 1023, "placement": placement}
    clicks = {"kind": "synthetic_clicks", "batch_size": 8, "vocabulary": 1000}
    spec = JobSpec.parse({"model": model, "data": clicks, "runtime": {"devices": 4}})
    [table] = tables_from_spec(spec)
    assert table.layers[0].parameters == rows * 8


def test_the_generator_has_the_published_number_of_trainable_parameters(spec_tables):
    generator, _ = spec_tables("gan")
    assert generator.trainable == 477_377


def test_the_multiply_adds_of_the_mnist_cnn_match_its_definition(spec_tables):
    [table] = spec_tables("cnn")
    products = {layer.path: layer.multiply_adds for layer in table.layers if layer.multiply_adds}
    assert products == {
        "conv_1": 26 * 26 * 32 * 3 * 3 * 1,
        "conv_2": 24 * 24 * 64 * 3 * 3 * 32,
        "dense_1": 9216 * 128,
        "predictions": 128 * 10,
    }
    assert table.multiply_adds == 11_992_448


def test_lenet5_has_the_published_multiply_adds(spec_tables):
    [table] = spec_tables("lenet5", (32, 32, 1))
    assert table.multiply_adds == 416_520


def test_resnet20_has_the_parameters_and_multiply_adds_of_its_paper(spec_tables):
    # The paper's shortcuts have no weights; ours have two, of 1 × 1: 2,560 with their norms.
    [table] = spec_tables("resnet", (32, 32, 3), depth=20)
    assert math.isclose(table.trainable, 0.27e6, rel_tol=0.02)
    assert math.isclose(table.multiply_adds, 41e6, rel_tol=0.02)


def test_the_sparse_model_looks_up_a_row_for_each_key(spec_tables):
    [table] = spec_tables("embedding", (10, 5), 2)
    assert [layer.path for layer in table.layers] == ["embedding", "flatten", "predictions"]
    assert table.layers[0].looked_up_rows == 50
    assert table.layers[1].output_shape == (400,)


def test_attention_grows_with_the_square_of_the_sequence_length(spec_tables):
    [short] = spec_tables("transformer_lm", (16,), 50, layers=1)
    [long] = spec_tables("transformer_lm", (32,), 50, layers=1)
    quadratic = long.multiply_adds - 2 * short.multiply_adds
    assert quadratic == 2 * 128 * (32**2 - 2 * 16**2)


def test_only_the_last_layer_of_each_network_is_its_output(spec_tables):
    for table in spec_tables("gan"):
        assert [layer.output for layer in table.layers].count(True) == 1
        assert table.layers[-1].output


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"data": {"kind": "npz", "path": "mnist.npz"}}, "npz data"),
        (
            {"model": {"kind": "lstm_lm"}, "data": {"kind": "text", "path": "a.txt"}},
            "text data",
        ),
        (
            {
                "model": {"kind": "keras_application", "name": "MobileNet"},
                "data": {"kind": "synthetic", "shape": [32, 32, 3]},
            },
            "keras_application",
        ),
    ],
)
def test_tables_that_depend_on_data_or_on_keras_are_not_known_yet(job, parts, reason):
    unknown = tables_from_spec(job(**parts))
    assert isinstance(unknown, NotYetKnown)
    assert reason in unknown.reason


@pytest.mark.parametrize(
    ("data", "train", "steps"),
    [
        ({"kind": "digits", "batch_size": 256}, {"epochs": 2}, 2 * (1437 // 256)),
        ({"kind": "digits", "batch_size": 256}, {"steps": 7, "epochs": 2}, 7),
        ({"kind": "digits", "batch_size": 64}, {"accumulate": 4}, 1437 // 256),
        ({"kind": "synthetic", "examples": 1000, "batch_size": 100}, {"epochs": 3}, 24),
        ({"kind": "npz", "path": "mnist.npz"}, {"epochs": 3}, None),
    ],
)
def test_the_total_steps_are_known_if_the_spec_gives_the_number_of_examples(
    job, data, train, steps
):
    spec = job(data=data, train=train)
    assert total_steps(spec) == steps


def test_the_total_steps_of_a_bundle_are_known_only_if_the_spec_has_them(job):
    bundle = {"kind": "bundle", "bundle": "sha256:" + "0" * 64}
    assert total_steps(job(model=bundle, train={"epochs": 2})) is None
    assert total_steps(job(model=bundle, train={"steps": 7})) == 7


def test_a_step_has_the_examples_of_all_ranks(job):
    spec = job(data={"kind": "digits", "batch_size": 64}, runtime={"workers": 2, "devices": 2})
    assert spec.global_batch_size == 256
    assert total_steps(spec) == spec.train.epochs * (1437 // 256)


def test_frozen_layers_have_weights_that_the_optimizer_does_not_touch():
    document = {"model": {"kind": "cnn"}, "data": {"kind": "digits"}}
    [all_trained] = tables_from_spec(JobSpec.parse(document))
    frozen = JobSpec.parse(document | {"init": {"job": "a", "freeze": ["^conv"]}})
    [table] = tables_from_spec(frozen)
    assert table.parameters == all_trained.parameters
    trained = {row.path for row in table.layers if row.trainable}
    assert trained == {"dense_1", "predictions"}
