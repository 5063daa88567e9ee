"""A small step and loop over digits, and what they leave in the weights."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from ampcore import data, models
from ampcore.precision import NoLossScale
from ampcore.spec.data import Digits
from ampcore.spec.model import Mlp
from ampcore.train.feed import Feed
from ampcore.train.loop import Loop
from ampcore.train.step import Batch, TrainStep

BATCH = 64


@pytest.fixture(scope="session")
def digits():
    return data.load(Digits(validation_split=0.0), seed=0)


@pytest.fixture
def make_step(digits):
    """Makes the same network again and again, with the optimizer, scale and clipping given."""

    def make(loss_scale=None, optimizer=None, policy="float32", model=None, **clip):
        keras.utils.set_random_seed(0)
        if model is None:
            policy = keras.DTypePolicy(policy)
            model = models.build(Mlp(hidden=(16,), dropout=0.2), digits.input_shape, 10, policy)
        optimizer = optimizer or keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        return TrainStep(model, optimizer, loss_scale or NoLossScale(), **clip)

    return make


@pytest.fixture
def make_loop(digits):
    """Makes a loop of a step over the first epoch."""

    def make(step):
        epoch = Feed(digits, shuffle=True, seed=0).epoch(0)
        loop = Loop(step, step.loss_scale.init(), epoch, BATCH)
        return SimpleNamespace(
            loop=loop, run=lambda first, count: loop.run(epoch, first, count), model=step.model
        )

    return make


@pytest.fixture(scope="session")
def batch(digits):
    return Batch(digits.x_train[:BATCH], digits.y_train[:BATCH])


@pytest.fixture(scope="session")
def values():
    """A copy of everything that a step may change."""

    def copy(step):
        return [
            np.copy(variable.numpy())
            for variable in step.model.variables + step.optimizer.variables
        ]

    return copy
