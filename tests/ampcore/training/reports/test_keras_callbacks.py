"""Callbacks of Keras, the history and the progress of `Trainer.from_keras`."""

import csv
import importlib.util

import keras
import numpy as np
import pytest

import ampcore
from ampspec.errors import InvalidModel
from ampspec.telemetry import EventType

ROWS, WIDTH, STEPS = 128, 4, 4
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
OPTIMIZER = {"kind": "sgd", "learning_rate": 0.1}
SCHEDULE = {"kind": "sgd", "learning_rate": 0.1, "schedule": {"kind": "cosine"}}


@pytest.fixture(scope="module")
def table():
    x = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int32)


def dense_model():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(2, name="scores")])


def trainer_of(table, model=None, **arguments):
    options = {
        "loss": LOSS,
        "metrics": ["accuracy"],
        "validation_data": table,
        "optimizer": OPTIMIZER,
        "epochs": 4,
        "verbose": 0,
        "runtime": ampcore.Runtime(engine="graph"),
        "telemetry": {"ranges": {"enabled": False}},
    }
    return ampcore.Trainer.from_keras(model or dense_model(), *table, **options | arguments)


class Recorder(keras.callbacks.Callback):
    """Records each call, with the learning rate and a weight of the model."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.calls, self.stop_after = [], stop_after

    def record(self, name, logs=None):
        weight = float(self.model.get_layer("scores").kernel[0, 0])
        self.calls.append((name, float(self.model.optimizer.learning_rate), weight, logs))

    def on_train_begin(self, logs=None):
        self.record("train begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.record(f"begin {epoch}")

    def on_epoch_end(self, epoch, logs=None):
        self.record(f"end {epoch}", logs)
        self.model.stop_training = epoch == self.stop_after

    def on_train_end(self, logs=None):
        self.record("train end", logs)


def test_callbacks_see_each_epoch_as_in_fit_and_can_stop_the_training(table, tmp_path):
    model, recorder, events = dense_model(), Recorder(stop_after=2), []
    log, pattern = tmp_path / "log.csv", str(tmp_path / "{epoch}.weights.h5")
    callbacks = [
        recorder,
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        keras.callbacks.CSVLogger(str(log)),
        keras.callbacks.ModelCheckpoint(
            pattern, monitor="val_accuracy", save_best_only=True, save_weights_only=True
        ),
    ]
    trainer = trainer_of(table, model, callbacks=callbacks, policy="mixed_bfloat16")
    result = trainer.run(on_event=events.append)

    names = [name for name, *_ in recorder.calls]
    epochs = [f"{point} {epoch}" for epoch in range(3) for point in ("begin", "end")]
    assert names == ["train begin", *epochs, "train end"]
    ends = [call for call in recorder.calls if call[0].startswith("end")]
    np.testing.assert_allclose([rate for _, rate, *_ in ends], [0.1, 0.05, 0.1 / 3], rtol=1e-6)
    # The weights are those of the end of each epoch, and the last ones are kept.
    weights = [weight for _, _, weight, _ in ends]
    assert len(set(weights)) == 3
    assert weights[-1] == float(model.get_layer("scores").kernel[0, 0])

    assert result.steps == 3 * STEPS
    assert result.stopped_early == {"epoch": 2, "metric": None, "best": None}
    [stopped] = [event.data for event in events if event.type is EventType.STOPPED_EARLY]
    assert "callback" in stopped["message"]
    assert result.epochs == (0, 1, 2)
    losses = [event.data["loss"] for event in events if event.type is EventType.EPOCH]
    assert result.history["loss"] == losses
    assert result.history["val_accuracy"][-1] == result.metrics["val_accuracy"]
    assert result.history["skipped_steps"] == [0, 0, 0]
    assert [dict(call[3]) for call in ends] == [
        {name: values[epoch] for name, values in result.history.items()} for epoch in range(3)
    ]
    rows = list(csv.DictReader(log.read_text().splitlines()))
    assert [float(row["loss"]) for row in rows] == pytest.approx(losses)
    assert list(tmp_path.glob("*.weights.h5"))
    # The compiled optimizer, here none, is the model's again.
    assert "optimizer" not in vars(model)


def test_a_rate_that_a_callback_assigns_is_the_one_that_trains(table):
    class Zero(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                self.model.optimizer.learning_rate = 0.0

    recorder = Recorder()
    trainer_of(table, callbacks=[Zero(), recorder]).run()
    weights = [weight for name, _, weight, _ in recorder.calls if name.startswith("end")]
    assert weights[0] != weights[1] == weights[2] == weights[3]


def test_early_stopping_of_keras_stops_the_run_as_its_section_does(table):
    callback = keras.callbacks.EarlyStopping(
        "val_accuracy", min_delta=1.0, patience=2, restore_best_weights=True
    )
    model, other = dense_model(), dense_model()
    result = trainer_of(table, model, callbacks=callback, epochs=9).run()
    train = ampcore.Train(
        early_stopping=ampcore.EarlyStopping(patience=2, min_delta=1.0),
        best=ampcore.Best(metric="val_accuracy"),
        keep="best",
    )
    expected = trainer_of(table, other, train=train, epochs=9).run()
    assert result.stopped_early == expected.stopped_early
    assert result.stopped_early["epoch"] == 2
    assert result.weights_digest == expected.weights_digest
    assert result.metrics == expected.metrics


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (lambda: "log", "expected callbacks of Keras; received 'log'"),
        (lambda: keras.callbacks.BackupAndRestore("folder"), "resume=True"),
        (keras.callbacks.TerminateOnNaN, "guard="),
        (keras.callbacks.SwapEMAWeights, '"ema"'),
        (ampcore.LossScaleCallback, "loss_scale and skipped_steps"),
        (lambda: keras.callbacks.ModelCheckpoint("a.keras", save_freq=10), 'save_freq="epoch"'),
        (lambda: keras.callbacks.TensorBoard("logs", update_freq="batch"), "update_freq"),
        (lambda: keras.callbacks.EarlyStopping("loss"), "monitor: a metric of the validation"),
        (lambda: keras.callbacks.EarlyStopping(baseline=0.5), "baseline: None; received 0.5"),
        (
            lambda: keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None),
            "received LambdaCallback with on_train_batch_end",
        ),
    ],
)
def test_a_callback_that_a_run_cannot_call_is_refused_by_name(table, callback, message):
    with pytest.raises(InvalidModel, match=f"callbacks: .*{message}"):
        trainer_of(table, callbacks=[callback()])


def test_a_rate_of_a_schedule_cannot_be_assigned(table):
    scheduler = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)
    rate = keras.optimizers.schedules.CosineDecay(0.1, 100)
    for optimizer in (SCHEDULE, keras.optimizers.SGD(rate)):
        with pytest.raises(InvalidModel, match="constant learning rate for LearningRateScheduler"):
            trainer_of(table, callbacks=scheduler, optimizer=optimizer)


def test_tensorboard_needs_its_package(table, tmp_path, monkeypatch):
    callback = keras.callbacks.TensorBoard(str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidModel, match="pip install tensorboard"):
        trainer_of(table, callbacks=[callback])


def test_a_failing_callback_ends_the_run_and_the_model_is_as_before(table):
    class Failing(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise RuntimeError("the disk of the log is full")

    model = dense_model()
    before = model.get_weights()
    with pytest.raises(RuntimeError, match="the disk of the log is full"):
        trainer_of(table, model, callbacks=[Failing()]).run()
    np.testing.assert_equal(model.get_weights(), before)


@pytest.mark.parametrize(("verbose", "is_bar"), [(2, False), (1, True), ("auto", False)])
def test_the_progress_is_printed(table, capsys, verbose, is_bar):
    trainer_of(table, epochs=2, verbose=verbose).run()
    printed = capsys.readouterr().out
    assert "Epoch 2/2" in printed
    assert f"{STEPS}/{STEPS}" in printed
    assert "val_accuracy: " in printed
    assert "skipped_steps: " in printed
    assert ("\u2501" in printed) is is_bar


def test_a_resumed_run_has_the_history_of_the_epochs_that_it_has_trained(table, tmp_path):
    first = trainer_of(table, output_dir=tmp_path, epochs=2).run()
    second = trainer_of(table, output_dir=tmp_path, epochs=4, resume=True).run()
    undisturbed = trainer_of(table).run()
    assert (first.epochs, second.epochs) == ((0, 1), (2, 3))
    for name, values in undisturbed.history.items():
        assert first.history[name] + second.history[name] == values
