import numpy as np
import pytest
import tensorflow as tf

from ampspec.errors import InvalidModel
from ampspec.models.model import EmbeddingModel


def test_parameters_are_a_table_and_a_dense_layer(build, clicks):
    [network] = build(EmbeddingModel(), clicks).networks
    assert network.model.count_params() == 1024 * 8 + 10 * 5 * 8 + 1
    assert network.model.output_shape == (None, 1)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_the_gradient_of_the_table_has_only_the_rows_that_were_looked_up(
    build, clicks, differentiate, policy
):
    found = differentiate(build(EmbeddingModel(hidden=(16,)), clicks, policy), clicks)
    [table, *dense] = found.grads[0]
    assert isinstance(table, tf.IndexedSlices)
    assert table.values.dtype == tf.float32
    assert set(np.ravel(table.indices)) == set(np.ravel(found.batch.x))
    assert not any(isinstance(grad, tf.IndexedSlices) for grad in dense)


@pytest.mark.parametrize("hidden", [(), (16,)], ids=str)
def test_the_sparse_forward_pass_equals_that_of_the_keras_model(build, clicks, noise_batch, hidden):
    task, batch = build(EmbeddingModel(hidden=hidden), clicks), noise_batch(clicks)
    measured = task.measure(task.weights(), task.non_trainable(), batch)
    logits = task.networks[0].model(batch.x).numpy()[:, 0].astype(np.float64)
    signs = np.where(batch.y.numpy() == 1, logits, -logits)
    np.testing.assert_allclose(measured["loss"], np.log1p(np.exp(-signs)), rtol=1e-5)
    np.testing.assert_array_equal(measured["accuracy"], (logits > 0) == (batch.y == 1))


def test_only_the_rows_of_the_batch_are_read_from_the_table(build, clicks, noise_batch):
    task, batch = build(EmbeddingModel(), clicks), noise_batch(clicks)
    graph = tf.function(
        lambda: task.losses(task.weights(), task.non_trainable(), batch, tf.constant([0, 0]))[0]
    ).get_concrete_function()
    table = task.weights()[0][0]
    [handle] = [inner for outer, inner in graph.graph.captures if outer is table.handle]
    assert [operation.type for operation in handle.consumers()] == ["ResourceGather"]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (EmbeddingModel(slots=9), "model.slots", r"expected keys of shape \[9, 5\]"),
        (EmbeddingModel(nnz=4), "model.slots", r"received examples of shape \[10, 5\]"),
        (EmbeddingModel(vocabulary=1023), "model.vocabulary", "at least 1024.*received 1023"),
    ],
)
def test_keys_that_do_not_fit_the_table_are_refused_with_the_field(
    build, clicks, spec, field, message
):
    with pytest.raises(InvalidModel, match=message) as caught:
        build(spec, clicks)
    assert caught.value.field == field
