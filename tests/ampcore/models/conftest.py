"""Signatures of data, random batches, and the losses and gradients of a task."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ampcore import models
from ampcore.data import Batch, Signature
from ampcore.precision import layer_policies
from ampspec.precision.precision import Precision

SEED = tf.constant([1, 2])


@pytest.fixture(scope="session")
def build():
    """Builds the task of a model's spec for data of a signature, under a precision policy."""

    def make(spec, signature, policy="float32"):
        return models.build(spec, signature, layer_policies(Precision(policy=policy)))

    return make


@pytest.fixture(scope="session")
def images():
    """The signature of images."""

    def make(*shape, classes=10):
        return Signature(shape, "float32", classes)

    return make


@pytest.fixture(scope="session")
def text():
    """The signature of text in windows of 6 out of 11 characters."""
    return Signature((6,), "int32", 11, 11)


@pytest.fixture(scope="session")
def clicks():
    """The signature of the sparse workload's data."""
    return Signature((10, 5), "int32", 2, 1024)


@pytest.fixture(scope="session")
def noise_batch():
    """Random examples and labels of a signature; text has a label for each character."""

    def make(signature, size=4):
        random = np.random.default_rng(0)
        shape = (size, *signature.input_shape)
        if signature.input_dtype == "float32":
            x = random.random(shape, dtype=np.float32)
        else:
            x = random.integers(signature.vocabulary, size=shape, dtype=np.int32)
        of_text = signature.vocabulary == signature.classes
        y = random.integers(signature.classes, size=shape if of_text else size, dtype=np.int32)
        return Batch(tf.constant(x), tf.constant(y))

    return make


@pytest.fixture(scope="session")
def differentiate(noise_batch):
    """A task's losses on a batch of noise, with the gradients of each network's own weights."""

    def run(task, signature):
        batch = noise_batch(signature)

        @tf.function
        def losses():
            weights, non_trainable = task.weights(), task.non_trainable()
            with tf.GradientTape(persistent=True) as tape:
                values, updates = task.losses(weights, non_trainable, batch, SEED)
            rows = zip(values, weights, strict=True)
            return values, [tape.gradient(*row) for row in rows], updates

        values, grads, updates = losses()
        return SimpleNamespace(batch=batch, losses=values, grads=grads, updates=updates)

    return run
