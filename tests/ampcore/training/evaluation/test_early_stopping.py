"""Early stopping, and the weights of the best evaluation in the result."""

import hashlib

import keras
import numpy as np
import pytest

from ampcore.checkpoint import newest
from ampcore.checkpoint import state as checkpoint_state
from ampcore.training import Trainer
from ampcore.training.evaluation.evaluate import Evaluator
from ampspec.errors import NonFiniteResult
from ampspec.telemetry import EventType

PARTS = {
    "data": {"kind": "digits", "batch_size": 718},
    "optimizer": {"kind": "adam", "learning_rate": 0.05},
}
LOSSES = [3.0, 1.0, 2.0, 2.0, 2.0, 2.0]


@pytest.fixture
def losses(monkeypatch):
    """Replaces the validation losses; the models are still those of the training."""
    wanted = {}

    def next_loss(evaluator, _):
        return {"val_loss": wanted.setdefault(evaluator, list(LOSSES)).pop(0)}

    monkeypatch.setattr(Evaluator, "__call__", next_loss)


def digest(file):
    model = keras.models.load_model(file)
    digest = hashlib.sha256()
    for weight in model.weights:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()


def early(**train):
    return {"epochs": 6, "early_stopping": {"patience": 2}, **train}


@pytest.mark.usefixtures("losses")
def test_the_run_ends_early_with_an_event_and_a_result(run_job, tmp_path):
    run = run_job(output_dir=tmp_path, train=early(), **PARTS)
    assert run.result.stopped_early == {"epoch": 3, "metric": "val_loss", "best": 1.0}
    assert (run.result.steps, run.result.stopped) == (8, False)
    assert run.result.best["epoch"] == 1
    assert run.result.best["steps"] == 4
    [event] = run.of(EventType.STOPPED_EARLY)
    assert event.step == 7
    assert event.data["message"] == (
        "Stopped early after epoch 3: val_loss has not improved in 2 evaluations; the best was 1 "
        "in epoch 1."
    )
    marked = [bool(event.data.get("best")) for event in run.of(EventType.EVALUATION)]
    assert marked == [True, True, False, False]


@pytest.mark.usefixtures("losses")
def test_the_best_weights_are_the_trained_model(run_job, tmp_path):
    run = run_job(output_dir=tmp_path / "a", train=early(keep="best"), **PARTS)
    short = run_job(output_dir=tmp_path / "b", train={"epochs": 2}, **PARTS)
    assert run.result.weights_digest == short.result.weights_digest
    assert digest(tmp_path / "a" / "model.keras") == short.result.weights_digest
    assert run.result.val_loss == 1.0
    assert run.result.metrics == {"val_loss": 1.0}


@pytest.mark.usefixtures("losses")
def test_both_models_are_saved(run_job, tmp_path):
    run = run_job(output_dir=tmp_path / "a", train=early(keep="both"), **PARTS)
    best = run_job(output_dir=tmp_path / "b", train={"epochs": 2}, **PARTS)
    last = run_job(output_dir=tmp_path / "c", train={"epochs": 4}, **PARTS)
    assert run.result.weights_digest == last.result.weights_digest
    assert digest(tmp_path / "a" / "model.keras") == last.result.weights_digest
    assert digest(tmp_path / "a" / "model-best.keras") == best.result.weights_digest
    files = [event.data["file"] for event in run.of(EventType.MODEL_SAVED)]
    assert files == ["model.keras", "model-best.keras"]
    assert run.result.val_loss == 2.0
    assert run.result.to_json()["best_model_file"] == "model-best.keras"


@pytest.mark.usefixtures("losses")
def test_the_best_weights_are_averages_if_those_are_evaluated(run_job, tmp_path):
    parts = PARTS | {"optimizer": {"kind": "adam", "learning_rate": 0.05, "ema": 0.9}}
    run = run_job(output_dir=tmp_path / "a", train=early(keep="best"), **parts)
    short = run_job(output_dir=tmp_path / "b", train={"epochs": 2}, **parts)
    assert run.result.weights_digest == short.result.weights_digest


def test_the_best_weights_give_the_best_metric(run_job, tmp_path):
    parts = PARTS | {"optimizer": {"kind": "adam", "learning_rate": 0.3}}
    run = run_job(output_dir=tmp_path, train={"epochs": 6, "keep": "best"}, **parts)
    found = [event.data["val_loss"] for event in run.of(EventType.EVALUATION)]
    assert run.result.val_loss == run.result.best["value"] == min(found)


@pytest.mark.usefixtures("losses")
def test_no_weights_are_copied_unless_they_are_kept(run_job, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("the weights were copied")

    monkeypatch.setattr(checkpoint_state, "capture_model", refuse)
    run = run_job(output_dir=tmp_path, train=early(), **PARTS)
    assert newest(tmp_path / "checkpoints").checkpoint.best_arrays is None
    assert run.result.best is not None


@pytest.mark.usefixtures("losses")
def test_a_checkpoint_holds_the_best_weights(run_job, tmp_path):
    run_job(output_dir=tmp_path, train=early(keep="best"), **PARTS)
    found = newest(tmp_path / "checkpoints").checkpoint
    assert found.best_arrays.keys() == {name for name in found.arrays if "/model/" in name}
    assert any((found.best_arrays[name] != found.arrays[name]).any() for name in found.best_arrays)


def test_a_run_without_a_finite_evaluation_fails(run_job, tmp_path, monkeypatch):
    monkeypatch.setattr(Evaluator, "__call__", lambda *_: {"val_loss": float("nan")})
    with pytest.raises(NonFiniteResult, match="val_loss of the last evaluation is nan"):
        run_job(output_dir=tmp_path, train=early(keep="best"), **PARTS)


def test_without_a_finite_metric_the_last_weights_stay_with_a_warning(
    run_job, tmp_path, monkeypatch
):
    monkeypatch.setattr(Evaluator, "__call__", lambda *_: {"val_accuracy": float("nan")})
    train = early(keep="best", best={"metric": "val_accuracy"})
    run = run_job(output_dir=tmp_path, train=train, **PARTS)
    assert [event.data["code"] for event in run.of(EventType.WARNING)] == ["no_best_evaluation"]
    assert run.result.best is None
    assert run.result.stopped_early == {"epoch": 1, "metric": "val_accuracy", "best": None}


@pytest.mark.usefixtures("losses")
def test_a_keras_model_gets_its_best_weights():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 4)).astype("float32"), rng.integers(2, size=64)

    def trained(epochs, **options):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="out")])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        trainer = Trainer.from_keras(
            model,
            data=(x, y),
            validation_data=(x, y),
            loss=loss,
            epochs=epochs,
            runtime={"engine": "graph"},
            **options,
        )
        return trainer.run(), model.get_weights()

    result, best = trained(6, train={"early_stopping": {"patience": 2}, "keep": "best"})
    assert result.stopped_early["epoch"] == 3
    _, short = trained(2)
    np.testing.assert_equal(best, short)
