"""Training in float32 equals NumPy and Keras with the same weights and batches."""

import keras
import numpy as np
import pytest

from ampcore import data
from ampspec.data.data import Digits

STEPS = 12
SEED = 3
DIGITS = {"kind": "digits", "batch_size": 128}
RATE = 0.05
NORMALIZED = [
    {"layer": "Conv2D", "filters": 4, "kernel_size": 3, "use_bias": False},
    {"layer": "BatchNormalization"},
    {"layer": "ReLU"},
    {"layer": "Flatten"},
    {"layer": "Dense", "units": "classes"},
]
B1, B2, EPSILON = 0.9, 0.999, 1e-7


@pytest.fixture
def runner_of(make_runner, one_step_blocks):
    """Makes equal sessions of a job, in blocks of one step."""

    def make(**parts):
        return make_runner(data=DIGITS, train={"epochs": 2, "seed": SEED}, **parts)

    return make


def batches(runner):
    """The examples and labels of each step, picked from the data by their indices."""
    digits = data.load(Digits())
    for step in range(STEPS):
        rows = runner.example_indices(step)
        yield digits.train.arrays.x[rows], digits.train.arrays.y[rows]


def losses(runner):
    runner.use_engine("graph")
    return [runner.run_block(step)["loss"][0] for step in range(STEPS)]


class Mlp:
    """Flatten → Dense → ReLU → Dense → mean cross-entropy, by hand, in float64."""

    def __init__(self, weights):
        self.weights = [weight.astype(np.float64) for weight in weights]

    def gradients(self, x, y):
        w1, b1, w2, b2 = self.weights
        x, rows = x.reshape(len(x), -1).astype(np.float64), np.arange(len(x))
        hidden = np.maximum(x @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        loss = -np.log(shares[rows, y]).mean()
        shares[rows, y] -= 1
        of_logits = shares / len(x)
        of_hidden = of_logits @ w2.T * (hidden > 0)
        grads = [x.T @ of_hidden, of_hidden.sum(0), hidden.T @ of_logits, of_logits.sum(0)]
        return loss, grads


def sgd(weights, grads, slots, step):
    return [weight - RATE * grad for weight, grad in zip(weights, grads, strict=True)], slots


def adam(weights, grads, slots, step):
    """Algorithm 1 of Kingma and Ba 2014, with ε̂ as in its section 2."""
    m, v = slots or ([0.0] * len(grads), [0.0] * len(grads))
    m = [B1 * old + (1 - B1) * grad for old, grad in zip(m, grads, strict=True)]
    v = [B2 * old + (1 - B2) * grad**2 for old, grad in zip(v, grads, strict=True)]
    rate = RATE * np.sqrt(1 - B2 ** (step + 1)) / (1 - B1 ** (step + 1))
    rows = zip(weights, m, v, strict=True)
    return [weight - rate * a / (np.sqrt(b) + EPSILON) for weight, a, b in rows], (m, v)


@pytest.mark.parametrize("loss_scale", [{"mode": "none"}, {"mode": "dynamic"}])
@pytest.mark.parametrize(("kind", "update"), [("sgd", sgd), ("adam", adam)])
def test_a_perceptron_trains_as_in_plain_numpy(runner_of, kind, update, loss_scale):
    runner = runner_of(
        model={"kind": "mlp", "hidden": [16]},
        optimizer={"kind": kind, "learning_rate": RATE},
        loss_scale=loss_scale,
    )
    model = runner.networks[0].model
    reference, slots, expected = Mlp(model.get_weights()), None, []
    for step, (x, y) in enumerate(batches(runner)):
        loss, grads = reference.gradients(x, y)
        reference.weights, slots = update(reference.weights, grads, slots, step)
        expected.append(loss)
    assert losses(runner) == pytest.approx(expected, rel=1e-5)
    for found, weight in zip(model.get_weights(), reference.weights, strict=True):
        np.testing.assert_allclose(found, weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "mlp", "hidden": [16], "dropout": 0.2},
        {"kind": "cnn", "filters": [4, 8], "dense": [16]},  # with dropout
        {"kind": "layers", "layers": NORMALIZED},  # with statistics
    ],
    ids=lambda model: model["kind"],
)
def test_a_network_trains_as_in_keras_itself(runner_of, model):
    optimizer = {"kind": "adam", "learning_rate": RATE / 10}
    runner, other = (runner_of(model=model, optimizer=optimizer) for _ in range(2))
    theirs = other.networks[0].model
    theirs.compile(
        keras.optimizers.Adam(RATE / 10),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    expected = []
    for x, y in batches(runner):
        expected.append(float(theirs.train_on_batch(x, y)))
        theirs.reset_metrics()
    assert losses(runner) == pytest.approx(expected, rel=1e-3)
    ours = runner.networks[0].model
    for found, weight in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(found.numpy(), weight.numpy(), rtol=1e-2, atol=1e-3)
