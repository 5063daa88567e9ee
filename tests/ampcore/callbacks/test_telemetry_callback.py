"""TelemetryCallback in `model.fit`: what it records of each step, and that it never ends `fit`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.callbacks import TelemetryCallback
from ampcore.precision import DynamicLossScale, LossScaleOptimizer
from ampspec.telemetry.scale_health import ScaleBounds

X = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
BAD = 3
"""The batch with an infinite example."""
BATCHES = 8
"""Of 8 examples; the last one has 4."""


class RecordedRun:
    """A run that keeps what it is given."""

    def __init__(self):
        self.rows, self.events, self.results = [], [], {}
        self.total_steps = self.bounds = None
        self.cancel_requested = False

    @property
    def next_step(self):
        return len(self.rows)

    def log(self, **values):
        self.rows.append(values)

    def event(self, event, data):
        self.events.append((event, data))

    def result(self, **values):
        self.results |= {name: value for name, value in values.items() if value is not None}

    def expect_steps(self, total_steps):
        self.total_steps = total_steps

    def use_scale_bounds(self, bounds):
        self.bounds = bounds

    def __getitem__(self, name):
        return [row[name] for row in self.rows]


@pytest.fixture
def run():
    return RecordedRun()


def a_model(optimizer, policy="mixed_float16", **options):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(16, activation="relu", dtype=policy),
            keras.layers.Dense(2, dtype="float32"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, **{"jit_compile": False, "metrics": ["accuracy"], **options})
    return model


def fit(model, run, x=X, *, epochs=1, callbacks=(), **more):
    callbacks = [*callbacks, TelemetryCallback(run)]
    options = {"batch_size": 8, "epochs": epochs, "shuffle": False, "verbose": 0}
    return model.fit(x, Y, callbacks=callbacks, **options, **more)


def with_bad_batch():
    x = X.copy()
    x[8 * BAD] = np.inf
    return x


def losses_of_single_steps(optimizer, x=X, epochs=1):
    """The loss of each batch, by `train_on_batch`."""
    model = a_model(optimizer)
    found = []
    for _ in range(epochs):
        for begin in range(0, len(x), 8):
            model.reset_metrics()
            batch = slice(begin, begin + 8)
            found.append(float(model.train_on_batch(x[batch], Y[batch], return_dict=True)["loss"]))
    return found


def ours(**constants):
    return LossScaleOptimizer(keras.optimizers.SGD(0.1), DynamicLossScale(**constants))


def keras_own(**options):
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), **options)


def test_each_step_has_the_loss_of_its_own_batch(run):
    fit(a_model(ours()), run, epochs=2)
    np.testing.assert_allclose(run["loss"], losses_of_single_steps(ours(), epochs=2), rtol=1e-4)
    assert run["examples"] == [*[8] * 7, 4] * 2
    assert run["learning_rate"] == pytest.approx([0.1] * 16)
    assert all(seconds > 0 for seconds in run["step_time_s"])
    assert not any(run["skipped"])
    assert all(row["step"] is None for row in run.rows)


@pytest.mark.parametrize(
    "optimizer",
    [ours(initial=2.0**10), keras_own(initial_scale=2.0**10)],
    ids=["ampcore", "keras"],
)
@pytest.mark.parametrize("eager", [False, True], ids=["graph", "eager"])
def test_a_skipped_step_and_the_scales_around_it_are_recorded(run, optimizer, eager):
    optimizer = type(optimizer).from_config(optimizer.get_config())
    fit(a_model(optimizer, run_eagerly=eager), run, with_bad_batch())
    assert [i for i, skipped in enumerate(run["skipped"]) if skipped] == [BAD]
    assert run["loss_scale"] == [*[2.0**10] * (BAD + 1), *[2.0**9] * (BATCHES - BAD - 1)]
    [(kind, data)] = run.events
    assert (kind, data["epoch"], data["steps"], data["skipped"]) == ("epoch", 0, 7, 1)


def test_the_growth_of_a_scale_is_recorded(run):
    fit(a_model(ours(initial=4.0, growth_interval=3)), run)
    assert run["loss_scale"] == [4.0, 4.0, 4.0, 8.0, 8.0, 8.0, 16.0, 16.0]


@pytest.mark.parametrize(
    ("optimizer", "bounds"),
    [
        (ours(minimum=2.0, growth_interval=7), ScaleBounds(2.0, 2.0**24, 7)),
        (keras_own(dynamic_growth_steps=9), ScaleBounds(0.0, float("inf"), 9)),
        (keras.optimizers.SGD(0.1), None),
    ],
    ids=["ampcore", "keras", "none"],
)
def test_the_bounds_of_the_scale_are_passed_on(run, optimizer, bounds):
    fit(a_model(optimizer, policy="float32"), run)
    assert run.bounds == bounds


def test_without_a_loss_scale_it_is_one_and_nothing_is_skipped(run):
    fit(a_model(keras.optimizers.SGD(0.1), policy="float32"), run)
    assert run["loss_scale"] == [1.0] * BATCHES
    assert not any(run["skipped"])


def test_a_schedule_gives_each_step_its_own_learning_rate(run):
    rates = [0.1 * 0.5**step for step in range(BATCHES)]
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    fit(a_model(keras.optimizers.SGD(schedule), policy="float32"), run)
    assert run["learning_rate"] == pytest.approx(rates)


def test_a_callback_that_sets_the_learning_rate_before_an_epoch_is_respected(run):
    scheduler = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
    fit(a_model(keras.optimizers.SGD(1.0)), run, epochs=2, callbacks=[scheduler])
    assert run["learning_rate"] == pytest.approx([0.1] * BATCHES + [0.05] * BATCHES)


def test_validation_is_an_event_of_each_epoch_and_a_result(run):
    history = fit(a_model(ours()), run, epochs=2, validation_data=(X, Y)).history
    kinds = [kind for kind, _ in run.events]
    assert kinds == ["epoch", "evaluation", "epoch", "evaluation"]
    assert [data["epoch"] for _, data in run.events] == [0, 0, 1, 1]
    assert run.events[1][1] == {
        "epoch": 0,
        "val_loss": history["val_loss"][0],
        "val_accuracy": history["val_accuracy"][0],
    }
    assert run.results["val_loss"] == history["val_loss"][-1]
    assert run.results["final_loss"] == history["loss"][-1]
    assert run.results["parameters"] == 8 * 16 + 16 + 16 * 2 + 2
    assert len(run.rows) == 2 * BATCHES


def test_an_execution_of_several_steps_is_one_row_with_the_number_of_its_last_step(run):
    fit(a_model(ours(), steps_per_execution=3), run, with_bad_batch(), epochs=2)
    assert run["step"] == [2, 5, 7, 10, 13, 15]
    assert run["examples"] == [24, 24, 12] * 2
    assert run["skipped"] == [False, True, False] * 2
    assert run.total_steps == 16


def test_a_loss_per_execution_is_the_mean_of_its_steps(run):
    fit(a_model(ours(), steps_per_execution=4), run)
    single = losses_of_single_steps(ours())
    assert run["loss"][0] == pytest.approx(np.mean(single[:4]), rel=1e-4)


def test_further_calls_of_fit_continue_the_run(run):
    model = a_model(ours())
    fit(model, run)
    assert run.total_steps == BATCHES
    fit(model, run, epochs=3)
    assert (len(run.rows), run.total_steps) == (4 * BATCHES, 4 * BATCHES)
    fit(model, run, epochs=5, initial_epoch=4)
    assert run.total_steps == 5 * BATCHES


def test_a_cancelled_run_stops_the_training(run):
    class Cancel(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            run.cancel_requested = batch == 2

    fit(a_model(ours()), run, epochs=5, callbacks=[Cancel()])
    assert len(run.rows) == 3


@pytest.mark.parametrize("method", ["log", "event", "result", "use_scale_bounds"])
def test_an_error_of_the_run_is_logged_once_and_does_not_end_fit(run, method, caplog, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no")

    monkeypatch.setattr(run, method, fail)
    history = fit(a_model(ours()), run, epochs=2)
    assert len(history.history["loss"]) == 2
    assert caplog.text.count("TelemetryCallback has stopped") == 1


def test_a_train_step_of_its_own_gives_the_loss_that_it_returns(run):
    class Own(keras.Model):
        def train_step(self, data):
            return {"loss": tf.constant(0.25), "grad_norm": tf.constant(3.0)}

    inputs = keras.Input((8,))
    model = Own(inputs, keras.layers.Dense(2)(inputs))
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    fit(model, run)
    assert run["loss"] == [0.25] * BATCHES
    assert run["grad_norm"] == [3.0] * BATCHES


def test_a_loss_that_is_not_finite_is_recorded_as_such(run):
    x = X.copy()
    x[8 * BAD] = np.nan
    fit(a_model(ours()), run, x)
    assert np.isfinite(run["loss"]).tolist() == [step < BAD for step in range(BATCHES)]
    assert run["skipped"][BAD]


class TwoLosses(keras.Model):
    """A model with a training step and optimizers of its own, one of which it never applies."""

    def __init__(self, optimizers):
        super().__init__()
        self.first, self.second = keras.layers.Dense(1), keras.layers.Dense(1)
        self.first_optimizer, self.second_optimizer, self.unused_optimizer = optimizers
        self.first_loss = keras.metrics.Mean(name="first_loss")
        self.build((None, 8))

    def build(self, shape):
        self.first.build(shape)
        self.second.build(shape)

    @property
    def metrics(self):
        return [self.first_loss]

    def train_step(self, data):
        x, y = data
        losses = []
        for layer, optimizer in (
            (self.first, self.first_optimizer),
            (self.second, self.second_optimizer),
        ):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((layer(x)[:, 0] - tf.cast(y, tf.float32)) ** 2)
                scaled = optimizer.scale_loss(loss)
            optimizer.apply(
                tape.gradient(scaled, layer.trainable_variables), layer.trainable_variables
            )
            losses.append(loss)
        self.first_loss.update_state(losses[0])
        return {
            "first_loss": self.first_loss.result(),
            "second_loss": losses[1],
            "size": 3.0,
            "examples": 7.0,
            "by_layer": tf.stack(losses),
        }


def test_a_training_step_of_its_own_has_its_values_under_their_names(run, caplog):
    keras.utils.set_random_seed(0)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.25), initial_scale=64.0)
    model = TwoLosses([keras.optimizers.SGD(0.5), scaled, keras.optimizers.SGD(0.125)])
    model.compile()
    model.fit(
        X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0, callbacks=[TelemetryCallback(run)]
    )
    assert run["examples"] == [*[8] * 7, 4] * 2
    assert run["size"] == [3.0] * 16
    assert "by_layer" not in run.rows[0]
    [warning] = [message for message in caplog.messages if "by_layer" in message]
    assert "are not sent" in warning
    assert run["returned_examples"] == [7.0] * 16
    assert run["loss_scale"] == [64.0] * 16
    assert run["learning_rate"] == run["first_optimizer_learning_rate"] == [0.5] * 16
    assert run["second_optimizer_learning_rate"] == [0.25] * 16
    assert "unused_optimizer_learning_rate" not in run.rows[0]
    keras.utils.set_random_seed(0)
    again = keras.layers.Dense(1)
    again.build((None, 8))
    expected = []
    for start in range(0, 60, 8):
        x, y = X[start : start + 8], Y[start : start + 8].astype(np.float32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((again(x)[:, 0] - y) ** 2)
        gradients = tape.gradient(loss, again.trainable_variables)
        keras.optimizers.SGD(0.5).apply(gradients, again.trainable_variables)
        expected.append(float(loss))
    np.testing.assert_allclose(run["first_loss"][:8], expected, rtol=1e-5)
    sums = np.add(run["first_loss"], run["second_loss"])
    np.testing.assert_allclose(run["loss"], sums, rtol=1e-6)
    assert np.isfinite([data["loss"] for kind, data in run.events if kind == "epoch"]).all()


def test_a_second_fit_of_such_a_model_counts_its_examples_too(run):
    model = TwoLosses([keras.optimizers.SGD(0.5) for _ in range(3)])
    model.compile()
    for _ in range(2):
        model.fit(X, Y, batch_size=20, verbose=0, callbacks=[TelemetryCallback(run)])
    assert run["examples"] == [20] * 6
