import numpy as np
import pytest
import tensorflow as tf

from ampcore.data import Signature
from ampspec.errors import InvalidModel
from ampspec.models.model import LstmLm, TransformerLm

SPECS = [LstmLm(units=8, dim=4), TransformerLm(layers=2, heads=2, dim=8)]


@pytest.mark.parametrize(
    ("spec", "parameters"),
    [
        # table, then gates of LSTMs on their input and their state, then the logits
        (LstmLm(units=8, dim=4), 11 * 4 + 4 * 8 * (4 + 8 + 1) + 8 * 11 + 11),
        (
            LstmLm(units=8, dim=4, layers=2),
            11 * 4 + 4 * 8 * (4 + 8 + 1) + 4 * 8 * (8 + 8 + 1) + 8 * 11 + 11,
        ),
        # tables of characters and of positions, blocks of 12 d² + 13 d, a norm, the logits
        (
            TransformerLm(layers=2, heads=2, dim=8),
            (11 + 6) * 8 + 2 * (12 * 8**2 + 13 * 8) + 2 * 8 + 8 * 11 + 11,
        ),
    ],
    ids=["lstm", "two_lstms", "transformer"],
)
def test_parameter_counts_match_the_formulas(build, text, spec, parameters):
    [network] = build(spec, text).networks
    assert network.model.count_params() == parameters


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_every_character_gets_float32_logits(build, text, noise_batch, spec, policy):
    [network] = build(spec, text, policy).networks
    logits = network.model(noise_batch(text).x)
    assert logits.shape == (4, 6, 11)
    assert logits.dtype == "float32"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_the_logits_of_a_character_do_not_depend_on_later_characters(build, text, spec):
    [network] = build(spec, text).networks
    tokens = np.arange(6, dtype=np.int32)[np.newaxis]
    changed = tokens.copy()
    changed[0, 3] = 10
    first, second = network.model(tokens).numpy(), network.model(changed).numpy()
    np.testing.assert_allclose(first[:, :3], second[:, :3], rtol=1e-5, atol=1e-6)
    assert not np.allclose(first[:, 3:], second[:, 3:])


def test_a_transformer_distinguishes_positions(build, text):
    [network] = build(SPECS[1], text).networks
    logits = network.model(np.full((1, 6), 7, np.int32)).numpy()
    # The same character everywhere: only the position embedding differs.
    assert not np.allclose(logits[0, 0], logits[0, 5], atol=1e-4)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_the_loss_is_the_mean_over_all_characters(build, text, noise_batch, spec):
    task, batch = build(spec, text), noise_batch(text)
    [loss], _ = task.losses(task.weights(), task.non_trainable(), batch, tf.constant([0, 0]))
    logits = task.networks[0].model(batch.x).numpy().astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    right = np.take_along_axis(shares, batch.y.numpy()[..., np.newaxis], axis=-1)
    np.testing.assert_allclose(loss, -np.log(right).mean(), rtol=1e-5)


def test_labels_must_come_from_the_vocabulary(build):
    with pytest.raises(InvalidModel, match="expected text"):
        build(LstmLm(), Signature((6,), "int32", 2, 11))
