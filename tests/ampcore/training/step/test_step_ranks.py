"""A step that several ranks make together, and the same step with one."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from keras import layers

from ampcore.precision import DynamicLossScale
from ampspec.models.model import Mlp
from ampspec.objectives.optimizer import Adam


@pytest.fixture
def normed(make_step, task_of):
    """Makes a step of a model with statistics, over two micro-batches."""

    def make(**how):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((8, 8, 1))
        x = layers.BatchNormalization()(layers.Dense(8)(layers.Flatten()(inputs)))
        task = task_of(keras.Model(inputs, layers.Dense(10)(x)))
        made = make_step(DynamicLossScale(), task=task, optimizer=Adam(), accumulate=2)
        return replace(made, **how)

    return make


def test_ranks_with_equal_gradients_train_as_one(two_ranks, normed, batch, train, values):
    communicator = two_ranks()
    one, several = normed(), normed(communicator=communicator)
    single, replicated = train(one, batch, times=3), train(several, batch, times=3)
    np.testing.assert_equal(values(several), values(one))
    for column in ("loss", "grad_norm", "skipped"):
        assert [row[column] for row in replicated.rows] == [row[column] for row in single.rows]
    # Once a step, not once a micro-batch: losses, bad micro-batches, statistics and gradients.
    assert communicator.calls == ["mean"]  # it is traced once


def test_an_infinity_in_another_rank_skips_the_step_in_this_one(  # noqa: PLR0917 - fixtures
    two_ranks, make_step, make_task, batch, train, unchanged
):
    step = make_step(DynamicLossScale(), task=make_task(Mlp(hidden=(16,))), optimizer=Adam())
    step = replace(step, communicator=two_ranks(other=lambda tensor: tensor * np.inf))
    with unchanged(step):
        after = train(step, batch)
    assert after.row["skipped"] == 1.0
    assert after.states[0].scale == 2.0**14


@pytest.mark.parametrize("engine", ["graph", "xla_loop"])
def test_one_rank_adds_no_operation_to_a_loop(make_step, make_loop, monkeypatch, engine):
    made = make_loop(make_step(DynamicLossScale()), engine).loop.operations
    monkeypatch.delattr("ampcore.training.step.train_step.all_reduce_gradients")
    monkeypatch.delattr("ampcore.training.step.train_step.DropoutSeeds.before")
    assert make_loop(make_step(DynamicLossScale()), engine).loop.operations == made
    assert not any("Collective" in name or name == "Timestamp" for name in made)
