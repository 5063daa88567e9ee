"""LossScaleOptimizer in `model.fit`, beside Keras's own where that must be equal."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.callbacks import LossScaleCallback
from ampcore.precision import CalibratedLossScale, DynamicLossScale, FixedLossScale
from ampcore.precision.keras_optimizer import LossScaleOptimizer

X = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
BAD = 3
"""The batch with an infinite example."""


def a_model(policy="mixed_float16"):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(16, activation="relu", dtype=policy),
            keras.layers.Dense(2, dtype="float32"),
        ]
    )


def fit(optimizer, x=X, y=Y, *, epochs=1, callbacks=(), **options):
    model = a_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, **options)
    history = model.fit(
        x, y, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)
    )
    return model, history


def with_bad_batch():
    x = X.copy()
    x[8 * BAD] = np.inf
    return x


WAYS = pytest.mark.parametrize(
    "options",
    [{"jit_compile": False}, {"jit_compile": True}, {"run_eagerly": True},
     {"jit_compile": False, "steps_per_execution": 4}],
    ids=["graph", "xla", "eager", "4 steps at a time"],
)  # fmt: skip


@pytest.mark.parametrize("options", [{"jit_compile": False}, {"jit_compile": True}], ids=repr)
def test_without_an_overflow_it_trains_as_the_optimizer_of_keras(options):
    ours, _ = fit(LossScaleOptimizer(keras.optimizers.Adam(0.01)), epochs=2, **options)
    keras_own = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    theirs, _ = fit(keras_own, epochs=2, **options)
    for mine, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def weights_without_bad_batch():
    """The weights after a training on all batches but the bad one."""
    rows = np.s_[8 * BAD : 8 * BAD + 8]
    model, _ = fit(
        LossScaleOptimizer(keras.optimizers.Adam(0.01), FixedLossScale(64.0)),
        np.delete(X, rows, axis=0),
        np.delete(Y, rows),
        jit_compile=False,
    )
    return model.get_weights()


@WAYS
def test_a_step_with_an_overflow_changes_only_the_scale(options, weights_without_bad_batch):
    inner = keras.optimizers.Adam(0.01)
    optimizer = LossScaleOptimizer(inner, DynamicLossScale(initial=64.0, hysteresis=1))
    reports = []
    model, history = fit(
        optimizer, with_bad_batch(), callbacks=[LossScaleCallback(reports.append)], **options
    )
    assert int(optimizer.skipped_steps) == 1
    assert int(inner.iterations) == 7
    assert float(optimizer.dynamic_scale) == 32.0
    [report] = reports
    assert (report.skipped, report.skipped_in_all, report.loss_scale) == (1, 1, 32.0)
    assert report.step == 4
    assert history.history["loss_scale"] == [32.0]
    assert history.history["skipped_steps"] == [1]
    for mine, other in zip(model.get_weights(), weights_without_bad_batch, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-4)


def test_it_is_not_wrapped_again_by_compile():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD())
    model = a_model()
    model.compile(optimizer, "mse", auto_scale_loss=True)
    assert model.optimizer is optimizer


@pytest.mark.parametrize(
    ("loss_scale", "bad_steps", "scale"),
    [
        (DynamicLossScale(initial=4.0, minimum=2.0), 8, 2.0),
        (DynamicLossScale(initial=4.0, maximum=8.0, growth_interval=1), 0, 8.0),
        (FixedLossScale(128.0), 8, 128.0),
    ],
)
def test_the_scale_stays_within_its_bounds(loss_scale, bad_steps, scale):
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.01), loss_scale)
    x = np.full_like(X, np.inf) if bad_steps else X
    fit(optimizer, x, jit_compile=False)
    assert float(optimizer.dynamic_scale) == scale
    assert int(optimizer.skipped_steps) == bad_steps


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_sparse_gradient_stays_sparse_and_its_duplicate_rows_are_summed(jit_compile):
    seen = []

    class Recorder(keras.optimizers.SGD):
        def update_step(self, gradient, variable, learning_rate):
            seen.append(isinstance(gradient, tf.IndexedSlices))
            super().update_step(gradient, variable, learning_rate)

    table = keras.Variable(tf.ones([5, 2]), name="table")
    optimizer = LossScaleOptimizer(Recorder(1.0), FixedLossScale(1.0))
    optimizer.build([table])

    @tf.function(jit_compile=jit_compile)
    def step(values):
        gradient = tf.IndexedSlices(values, tf.constant([1, 1, 3]), tf.constant([5, 2]))
        optimizer.apply([gradient], [table])

    step(tf.ones([3, 2]))
    assert seen == [True]
    np.testing.assert_array_equal(table.value[:, 0], [1.0, -1.0, 1.0, 0.0, 1.0])
    # Each row is finite, their sum is not.
    step(tf.fill([3, 2], 3e38))
    assert int(optimizer.skipped_steps) == 1
    np.testing.assert_array_equal(table.value[:, 0], [1.0, -1.0, 1.0, 0.0, 1.0])


def test_a_compiled_model_is_saved_and_loaded_with_the_state_of_its_scale(tmp_path):
    scale = CalibratedLossScale(initial=64.0, calibration_steps=5, hysteresis=1)
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(0.01), scale)
    model, _ = fit(optimizer, with_bad_batch(), jit_compile=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").optimizer
    assert isinstance(loaded, LossScaleOptimizer)
    assert loaded.loss_scale == scale
    assert [v.numpy() for v in loaded.state] == [v.numpy() for v in optimizer.state]
    assert int(loaded.skipped_steps) == 1
    assert int(loaded.iterations) == 7


def test_an_inner_optimizer_with_its_own_scale_is_refused():
    with pytest.raises(ValueError, match="inner_optimizer: expected an optimizer without"):
        LossScaleOptimizer(LossScaleOptimizer(keras.optimizers.SGD()))


def test_the_callback_refuses_another_optimizer():
    with pytest.raises(TypeError, match=r"expected a model compiled with .* received SGD"):
        fit(keras.optimizers.SGD(), callbacks=[LossScaleCallback()], auto_scale_loss=False)


def test_skipped_steps_are_logged_by_default(caplog):
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.01), DynamicLossScale(initial=64.0))
    fit(optimizer, with_bad_batch(), callbacks=[LossScaleCallback()], jit_compile=False)
    [record] = caplog.records
    assert "step 4: the gradients were not finite, and 1 step(s) were skipped" in record.message
    assert "the loss scale is now 32" in record.message
