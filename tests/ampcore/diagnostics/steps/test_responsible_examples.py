"""Which examples of a batch are responsible for what it is, and which weights stand out."""

import keras
import numpy as np
import pytest

from ampcore.data import ArrayExamples, Batch
from ampcore.diagnostics.input_statistics import EXTREME, STANDS_OUT, InputStatistics
from ampcore.diagnostics.steps.probe import Measured
from ampcore.diagnostics.steps.responsible_examples import find_responsible, without
from ampcore.diagnostics.steps.weight_outliers import weight_outliers
from ampcore.models.task import Network

ROWS = 32
RANDOM = np.random.default_rng(0)


def batch_with(values):
    """A batch whose gradient norm is 1 plus the sum of its targets."""
    y = np.zeros(ROWS, np.float32)
    for position, value in values.items():
        y[position] = value
    return Batch(np.zeros((ROWS, 2), np.float32), y)


def measure(batch):
    total = float(np.sum(batch.y))
    return Measured(1.0, 1.0 + total) if np.isfinite(total) else Measured(np.nan, np.nan)


def responsible(values, losses=None, scores=None):
    batch = batch_with(values)
    return find_responsible(
        batch,
        measure(batch),
        measure,
        np.zeros(ROWS, np.float32) if losses is None else losses,
        np.zeros(ROWS) if scores is None else scores,
    )


@pytest.mark.parametrize("position", [0, 13, 31])
def test_an_example_without_any_sign_is_found_by_halving(position):
    assert responsible({position: 50.0}).positions == (position,)


def test_examples_are_ranked_by_what_they_do_to_the_step_not_by_their_values():
    scores = np.zeros(ROWS)
    scores[[3, 5, 9]] = [1000.0, 500.0, 2000.0]
    answer = responsible({3: 20.0, 5: 90.0}, scores=scores)
    assert answer.positions == (5, 3)
    assert answer.effects[5].grad_norm == 91.0
    assert answer.without == Measured(1.0, 1.0)


def test_one_of_two_that_is_not_finite_comes_first():
    losses = RANDOM.random(ROWS).astype(np.float32)
    losses[[2, 7]] = 100.0, np.nan
    answer = responsible({2: 100.0, 7: np.nan}, losses)
    assert answer.positions == (7, 2)


def test_an_unusual_value_that_changes_nothing_is_not_blamed():
    scores = np.zeros(ROWS)
    scores[4] = 1e6
    assert responsible({8: 40.0}, scores=scores).positions == (8,)


def test_a_batch_that_is_bad_as_a_whole_has_no_responsible_examples():
    assert responsible(dict.fromkeys(range(ROWS), 5.0)).positions == ()


def test_an_example_is_replaced_by_others_of_its_batch():
    batch = Batch(np.arange(8.0).reshape(4, 2), np.arange(4))
    replaced = without(batch, np.array([1, 2]))
    assert replaced.y.numpy().tolist() == [0, 0, 3, 3]


def statistics_of(x, y=None):
    y = np.zeros(len(x), np.int32) if y is None else y
    return InputStatistics(ArrayExamples(Batch(x, y)))


def test_a_column_without_any_number_has_statistics_without_a_warning():
    x = RANDOM.normal(size=(10, 2)).astype(np.float32)
    x[:, 1] = np.nan
    statistics = statistics_of(x)
    assert np.isinf(statistics.scores(Batch(x, np.zeros(10)))).all()
    assert 0 < statistics.usual_input < EXTREME


def test_a_quarter_of_wrong_values_does_not_hide_them():
    x = RANDOM.normal(size=(1000, 4)).astype(np.float32)
    x[:250] = 1e20
    assert (statistics_of(x).scores(Batch(x[:2], np.zeros(2))) > EXTREME).all()


@pytest.mark.parametrize("sigma", [1.0, 2.0, 3.0])
def test_heavy_tails_are_not_extreme(sigma):
    x = np.exp(sigma * RANDOM.normal(size=(100_000, 3))).astype(np.float32)
    assert statistics_of(x).extremes == ()


def test_a_rare_flag_is_no_outlier():
    x = np.zeros((5000, 2), np.float32)
    x[::1000, 0] = 1.0
    x[:, 1] = RANDOM.normal(size=5000)
    assert (statistics_of(x).scores(Batch(x[:1], np.zeros(1))) < STANDS_OUT).all()


def test_a_rare_large_value_is_not_extreme():
    """As 99999 is for capital gains of a census: 0.4 % of the examples have it."""
    x = np.zeros((20_000, 2), np.float32)
    x[:, 1] = RANDOM.normal(size=20_000)
    x[RANDOM.random(20_000) < 0.004, 0] = 99_999
    assert statistics_of(x).extremes == ()


def test_targets_and_several_inputs_count():
    x = {"a": RANDOM.normal(size=(500, 3)), "keys": RANDOM.integers(9, size=(500, 2))}
    y = RANDOM.normal(size=500)
    y[123] = 1e9
    [extreme] = statistics_of(x, y).extremes
    assert (extreme.example, extreme.largest) == (123, 1e9)


class OneNetwork:
    def __init__(self, model):
        self.networks = [Network("model", model)]


@pytest.mark.parametrize(("value", "is_found"), [(3e32, True), (-2e5, True), (0.9, False)])
def test_one_weight_that_is_far_from_all_others_is_named(value, is_found):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, name="dense")])
    kernel = np.array(model.layers[0].kernel)
    kernel[3, 4] = value
    model.layers[0].kernel.assign(kernel)
    outliers = weight_outliers(OneNetwork(model))
    names = [outlier.variable.partition("/")[2] for outlier in outliers]
    assert names == ["dense/kernel"] * is_found


def test_many_large_weights_are_no_single_fault():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8)])
    kernel = np.array(model.layers[0].kernel)
    kernel[0] = 1e9
    model.layers[0].kernel.assign(kernel)
    assert weight_outliers(OneNetwork(model)) == []
