"""Which evaluation is the best, and when evaluations no longer improve."""

import math

import keras
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore.models.supervised import Objective, SupervisedTask
from ampcore.models.task import Network
from ampcore.training.evaluation.best_evaluation import BestEvaluation, best_evaluation
from ampcore.training.run.counters import RunCounters
from ampspec.errors import InvalidData, InvalidModel
from ampspec.training.training import Train


def train(patience=2, **parts):
    stopping = {key: parts.pop(key) for key in ("min_delta", "start_epoch") if key in parts}
    return Train.model_validate({"early_stopping": {"patience": patience, **stopping}, **parts})


def observe(best, *losses, first=1, total=1000):
    """Evaluate after each epoch of one step; returns which ones were the best so far."""
    return [
        best.observe({"val_loss": loss}, steps=epoch, epochs=epoch, is_last=epoch == total)
        for epoch, loss in enumerate(losses, first)
        if not best.has_stopped
    ]


def test_the_run_ends_after_as_many_evaluations_without_improvement_as_its_patience():
    best = BestEvaluation(train(patience=2), "min")
    assert observe(best, 3.0, 2.0, 2.5, 2.0, 1.0) == [True, True, False, False]
    assert (best.state.value, best.state.steps, best.state.stopped_at) == (2.0, 2, 4)


def test_an_improvement_starts_the_patience_again():
    best = BestEvaluation(train(patience=2), "min")
    observe(best, 3.0, 4.0, 2.0, 4.0)
    assert not best.has_stopped


def test_higher_values_are_better_with_the_mode_max():
    best = BestEvaluation(train(patience=2), "max")
    assert observe(best, 0.5, 0.4, 0.6) == [True, False, True]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_value_that_is_not_finite_never_improves(mode, value):
    best = BestEvaluation(train(patience=2), mode)
    assert observe(best, value, 1.0, value) == [False, True, False]
    assert best.state.waited == 1


def test_small_improvements_do_not_count_for_the_patience_but_are_the_best():
    best = BestEvaluation(train(patience=3, min_delta=0.5), "min")
    assert observe(best, 3.0, 2.9, 2.8, 2.4) == [True, True, True, True]
    assert best.state.waited == 0, "0.6 better than the reference"
    observe(best, 2.3, 2.2, 2.1, first=5)
    assert best.has_stopped
    assert best.state.value == 2.1


def test_evaluations_before_the_start_epoch_do_not_count():
    best = BestEvaluation(train(patience=2, start_epoch=3), "min")
    observe(best, 1.0, 2.0, 2.0, 2.0)
    assert (best.state.waited, best.has_stopped) == (1, False)


def test_a_run_that_ends_anyway_does_not_end_early():
    best = BestEvaluation(train(patience=1), "min")
    observe(best, 1.0, 2.0, total=2)
    assert not best.has_stopped


def test_without_early_stopping_the_run_never_ends_early():
    best = BestEvaluation(Train(keep="best"), "min")
    observe(best, *[1.0] * 50)
    assert not best.has_stopped


values = st.lists(st.one_of(st.floats(), st.sampled_from([1.0, 2.0])), max_size=12)


@given(values=values, cut=st.integers(0, 12), mode=st.sampled_from(["min", "max"]))
def test_a_state_read_from_a_checkpoint_decides_as_one_that_was_not_interrupted(values, cut, mode):
    spec = train(patience=2, min_delta=0.1, start_epoch=2)
    whole = BestEvaluation(spec, mode)
    expected = observe(whole, *values)
    first = BestEvaluation(spec, mode)
    found = observe(first, *values[:cut])
    saved = RunCounters.model_validate(RunCounters(best=first.state).to_json())
    resumed = BestEvaluation(spec, mode)
    done = len(found)
    assert resumed.restore(saved.best, steps=done, epochs=done, has_weights=False)
    found += observe(resumed, *values[cut:], first=done + 1)
    assert found == expected
    assert repr(resumed.state) == repr(whole.state)


def test_another_metric_starts_the_comparison_again():
    saved = BestEvaluation(train(), "min")
    observe(saved, 1.0)
    now = BestEvaluation(train(best={"metric": "val_accuracy"}), "max")
    assert not now.restore(saved.state, steps=1, epochs=1, has_weights=True)
    assert now.state.value is None


def test_weights_that_were_not_kept_start_the_comparison_again():
    saved = BestEvaluation(train(), "min")
    observe(saved, 1.0)
    now = BestEvaluation(train(keep="best"), "min")
    assert not now.restore(saved.state, steps=1, epochs=1, has_weights=False)


def test_a_longer_patience_continues_a_run_that_ended_early():
    saved = BestEvaluation(train(patience=1), "min")
    observe(saved, 1.0, 2.0)
    assert saved.has_stopped
    now = BestEvaluation(train(patience=2), "min")
    assert now.restore(saved.state, steps=2, epochs=2, has_weights=False)
    assert not now.has_stopped


def test_a_start_epoch_after_the_early_end_starts_the_patience_again():
    saved = BestEvaluation(train(patience=2), "min")
    observe(saved, 1.0, 2.0, 2.0)
    now = BestEvaluation(train(patience=2, start_epoch=3), "min")
    assert now.restore(saved.state, steps=3, epochs=3, has_weights=False)
    assert (now.has_stopped, now.state.waited, now.state.value) == (False, 0, 1.0)


@pytest.fixture(scope="module")
def task():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="out")])
    cosine = keras.metrics.CosineSimilarity(name="alike")
    own = keras.metrics.MeanMetricWrapper(keras.losses.mean_squared_error, name="own")
    own._direction = None
    loss = keras.losses.MeanSquaredError()
    return SupervisedTask(Network("model", model), {"out": Objective(loss, 1.0, (cosine, own))})


def asked(metric="val_loss", **options):
    return Train.model_validate({"best": {"metric": metric, **options}})


@pytest.mark.parametrize(("metric", "mode"), [("val_loss", "min"), ("val_alike", "max")])
def test_the_direction_follows_from_the_metric(task, metric, mode):
    assert best_evaluation(asked(metric), task, has_validation=True).state.mode == mode


def test_a_metric_of_unknown_direction_needs_a_mode(task):
    with pytest.raises(InvalidModel, match=r"train\.best\.mode: expected min or max"):
        best_evaluation(asked("val_own"), task, has_validation=True)
    found = best_evaluation(asked("val_own", mode="max"), task, has_validation=True)
    assert found.state.mode == "max"


def test_an_unknown_metric_is_an_error_that_lists_the_known_ones(task):
    with pytest.raises(InvalidModel, match="val_loss, val_alike, val_own; received val_f1"):
        best_evaluation(asked("val_f1"), task, has_validation=True)


def test_validation_data_is_needed(task):
    with pytest.raises(InvalidData, match="validation data, which train"):
        best_evaluation(asked(), task, has_validation=False)


def test_nothing_is_compared_unless_the_spec_asks_for_it(task):
    assert best_evaluation(Train(), task, has_validation=True) is None
