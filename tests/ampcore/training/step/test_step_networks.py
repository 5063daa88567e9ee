"""A step of several networks, each with its own optimizer, loss scale and limits."""

import numpy as np
import pytest
import tensorflow as tf

from ampcore.data import Batch
from ampcore.precision import DynamicLossScale
from ampcore.training.step.clip import Clip
from ampcore.training.step.telemetry_columns import NETWORK_COLUMNS, STEP_COLUMNS
from ampspec.objectives.optimizer import Adam, Sgd

GENERATOR = DynamicLossScale(initial=2.0**4)
DISCRIMINATOR = DynamicLossScale(initial=2.0**6)


@pytest.fixture(scope="module")
def made(make_step, gan, values):
    """A step, traced once for the tests, with its state before the first."""
    step = make_step(GENERATOR, DISCRIMINATOR, task=gan(), optimizer=Adam(learning_rate=0.01))
    return step, values(step)


@pytest.fixture
def step(made, reset):
    reset(*made)
    return made[0]


@pytest.fixture
def bad(batch):
    """Real images with an infinity: only the discriminator uses them."""
    return Batch(tf.where(tf.reshape(tf.range(8) == 3, (8, 1)), np.inf, batch.x), batch.y)


def test_a_good_step_updates_both_networks_and_their_statistics(step, batch, train, values):
    before = values(step)
    row = train(step, batch).row
    assert row["skipped"] == 0.0
    names = [network.name for network in step.task.networks]
    assert names == ["generator", "discriminator"]
    for old, new in zip(before, values(step), strict=True):
        assert not np.array_equal(old, new) or old.ndim == 0  # learning rates stay


def test_an_overflow_of_one_network_skips_the_whole_step(step, batch, bad, train, unchanged):
    train(step, batch)
    with unchanged(step):
        assert train(step, bad).row["skipped"] == 1.0


def test_each_scale_is_adjusted_by_the_gradients_of_its_own_network(step, bad, train):
    generator, discriminator = train(step, bad).states
    assert (generator.scale, generator.good_steps) == (2.0**4, 1)
    assert (discriminator.scale, discriminator.good_steps) == (2.0**5, 0)


def test_an_overflow_of_the_generator_skips_the_discriminator_too(
    make_step, gan, batch, train, unchanged
):
    scales = DynamicLossScale(initial=2.0**24), DynamicLossScale(initial=1.0)
    step = make_step(*scales, task=gan("mixed_float16"))
    with unchanged(step):
        after = train(step, batch)
    assert after.row["skipped"] == 1.0
    assert np.isfinite(after.row["grad_norm/discriminator"])
    assert [float(state.scale) for state in after.states] == [2.0**23, 1.0]


def test_the_row_has_columns_of_each_network_and_of_all_networks(step, batch, train):
    row = train(step, batch).row
    own = [
        f"{column}/{name}" for name in ("generator", "discriminator") for column in NETWORK_COLUMNS
    ]
    assert step.columns == (*STEP_COLUMNS, *own)
    assert row["loss"] == pytest.approx(row["loss/generator"] + row["loss/discriminator"])
    assert row["loss_scale"] == row["loss_scale/generator"] == 2.0**4
    assert row["loss_scale/discriminator"] == 2.0**6
    norms = [row["grad_norm/generator"], row["grad_norm/discriminator"]]
    assert row["grad_norm"] == pytest.approx(np.hypot(*norms))


def test_each_network_is_clipped_by_its_own_limits(make_step, gan, batch, train):
    clips = [Clip(norm=1e-4), Clip(value=1e-3)]
    unit = Sgd(learning_rate=1.0)
    step = make_step(GENERATOR, DISCRIMINATOR, task=gan(), optimizer=unit, clips=clips)
    weights = [network.model.trainable_variables for network in step.task.networks]
    before = [[np.array(v.numpy()) for v in own] for own in weights]
    row = train(step, batch).row
    generator, discriminator = (
        np.concatenate([(old - v.numpy()).ravel() for old, v in zip(*pair, strict=True)])
        for pair in zip(before, weights, strict=True)
    )
    assert np.linalg.norm(generator) == pytest.approx(1e-4, rel=1e-2)
    assert np.abs(discriminator).max() == pytest.approx(1e-3, rel=1e-2)
    assert row["grad_norm/generator"] > 1e-4  # unclipped


def test_a_custom_task_that_returns_its_states_as_a_list_is_told_what_to_return(
    make_step, gan, batch, train
):
    task = gan()

    class Listing(type(task)):
        def losses(self, *arguments):
            losses, updates = super().losses(*arguments)
            return losses, [list(update.values()) for update in updates]

    task.__class__ = Listing
    with pytest.raises(TypeError, match=r"Listing\.losses\(\) must return.*'generator', a dict"):
        train(make_step(GENERATOR, DISCRIMINATOR, task=task), batch)
