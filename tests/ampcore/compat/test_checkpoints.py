"""Checkpoints cross over between LossScaleOptimizers: ours, those of tf_keras and of Keras 3."""

from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from ampcore.compat import LossScaleOptimizer

K, T = keras.optimizers, tf_keras.optimizers
TfKerasOptimizer = tf_keras.mixed_precision.LossScaleOptimizer
INF = float("inf")
SCALE = {"initial_scale": 16.0, "dynamic_growth_steps": 4}
INNER = {
    "legacy.Adam": lambda: T.legacy.Adam(0.1, amsgrad=True),
    "legacy.SGD": lambda: T.legacy.SGD(0.1, momentum=0.9),
    "Adam": lambda: T.Adam(0.1),
    "SGD": lambda: T.SGD(0.1, momentum=0.9),
}
INNER_OPTIMIZERS = pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
DIRECTIONS = pytest.mark.parametrize(
    ("saved_by", "restored_by"),
    [(TfKerasOptimizer, LossScaleOptimizer), (LossScaleOptimizer, TfKerasOptimizer)],
    ids=["tf_keras to compat", "compat to tf_keras"],
)


class Training(NamedTuple):
    """Two weights with their optimizer."""

    optimizer: Any
    weight: Any

    def step(self, factor: float = 1.0) -> None:
        self.optimizer.minimize(
            lambda: tf.reduce_sum(self.weight**2) * factor, var_list=[self.weight]
        )

    def checkpoint(self) -> Any:
        return tf.train.Checkpoint(optimizer=self.optimizer, weight=self.weight)

    def values(self) -> list[Any]:
        optimizer = self.optimizer
        counts = [optimizer.loss_scale, optimizer.dynamic_counter, optimizer.iterations]
        return [np.array(value) for value in (*counts, self.weight)]


def training(kind: Any, inner: Any, value: float = 5.0, **scale: Any) -> Training:
    return Training(kind(inner(), **(scale or SCALE)), tf.Variable([1.0, value]))


def assert_equal(some: Training, others: Training) -> None:
    for value, other in zip(some.values(), others.values(), strict=True):
        np.testing.assert_array_equal(value, other)


@INNER_OPTIMIZERS
@DIRECTIONS
@pytest.mark.parametrize("is_built", [False, True], ids=["new", "built"])
def test_a_checkpoint_crosses_over_with_everything(
    inner, saved_by, restored_by, is_built, tmp_path
):
    saved = training(saved_by, inner)
    for factor in (1.0, INF, 1.0, 1.0):
        saved.step(factor)
    # tf_keras counts a skipped step as an iteration, compat does not.
    assert int(saved.optimizer.iterations) == (4 if saved_by is TfKerasOptimizer else 3)
    path = saved.checkpoint().save(tmp_path / "checkpoint")

    restored = training(restored_by, inner, initial_scale=2.0, dynamic_growth_steps=4)
    if is_built:
        restored.step()
    status = restored.checkpoint().restore(path)
    status.assert_existing_objects_matched()
    if restored_by is LossScaleOptimizer:
        if not is_built:
            restored.optimizer.build([restored.weight])
        status.assert_consumed()
    # The slots are equal if the next steps are; the last of them doubles the scale.
    for _ in range(3):
        saved.step()
        restored.step()
        assert_equal(saved, restored)
    assert float(restored.optimizer.loss_scale) == 16.0


@INNER_OPTIMIZERS
def test_skipped_steps_are_restored_and_named_where_they_cannot_be(inner, tmp_path):
    saved = training(LossScaleOptimizer, inner)
    saved.step()
    saved.step(INF)
    path = saved.checkpoint().save(tmp_path / "checkpoint")
    restored = training(LossScaleOptimizer, inner)
    restored.step()
    restored.checkpoint().restore(path).assert_consumed()
    assert int(restored.optimizer.skipped_steps) == 1
    theirs = training(TfKerasOptimizer, inner)
    theirs.step()
    status = theirs.checkpoint().restore(path)
    with pytest.raises(AssertionError, match="skipped_steps"):
        status.assert_consumed()


@INNER_OPTIMIZERS
def test_the_checkpoint_of_an_optimizer_alone_crosses_over(inner, tmp_path):
    alone = Training(inner(), tf.Variable([1.0, 5.0]))
    alone.step()
    alone.step()
    path = alone.checkpoint().save(tmp_path / "checkpoint")
    restored = training(LossScaleOptimizer, inner)
    restored.checkpoint().restore(path).assert_nontrivial_match()
    alone.step()
    restored.step()
    np.testing.assert_allclose(restored.weight, alone.weight, rtol=1e-6)
    assert int(restored.optimizer.iterations) == int(alone.optimizer.iterations) == 3


@pytest.mark.parametrize("names", [("base_optimizer", "loss_scale")])
def test_the_inner_optimizer_of_a_checkpoint_of_tensorflow_2_2_is_restored(names, tmp_path):
    """There the inner optimizer was a child of the LossScaleOptimizer."""
    inner = T.legacy.Adam(0.1)
    trained = Training(inner, tf.Variable([1.0, 5.0]))
    trained.step()
    scale = tf.train.Checkpoint(
        current_loss_scale=tf.Variable(64.0), good_steps=tf.Variable(3, dtype=tf.int64)
    )
    older = tf.train.Checkpoint(**dict(zip(names, (inner, scale), strict=True)))
    path = tf.train.Checkpoint(optimizer=older, weight=trained.weight).save(tmp_path / "older")
    restored = training(LossScaleOptimizer, lambda: T.legacy.Adam(0.1))
    restored.step()
    restored.checkpoint().restore(path)
    assert [float(value) for value in restored.values()[:3]] == [64.0, 3.0, 1.0]


def k3_training(kind: Any) -> Training:
    return Training(kind(K.Adam(0.1), **SCALE), keras.Variable([1.0, 5.0]))


def k3_step(training: Training, factor: float = 1.0) -> None:
    """A step of either optimizer; that of Keras 3 takes scaled gradients."""
    optimizer, weight = training
    is_ours = isinstance(optimizer, LossScaleOptimizer)
    scale = optimizer.get_scaled_loss if is_ours else optimizer.scale_loss
    with tf.GradientTape() as tape:
        scaled = scale(tf.reduce_sum(weight.value**2) * factor)
    grads = tape.gradient(scaled, [weight.value])
    if is_ours:
        optimizer.apply_gradients([(optimizer.get_unscaled_gradients(grads)[0], weight)])
    else:
        optimizer.apply(grads, [weight])


@pytest.mark.parametrize("kind", [LossScaleOptimizer, K.LossScaleOptimizer])
def test_a_checkpoint_of_keras_3_is_restored(kind, tmp_path):
    saved = k3_training(kind)
    for factor in (1.0, INF, 1.0):
        k3_step(saved, factor)
    path = saved.checkpoint().save(tmp_path / "checkpoint")
    restored = k3_training(LossScaleOptimizer)
    k3_step(restored)
    restored.checkpoint().restore(path).assert_existing_objects_matched()
    assert float(restored.optimizer.loss_scale) == 8.0
    assert int(restored.optimizer.dynamic_counter) == 1
    assert int(restored.optimizer.iterations) == 2
    k3_step(saved)
    k3_step(restored)
    np.testing.assert_array_equal(restored.weight.numpy(), saved.weight.numpy())


@pytest.mark.parametrize("kind", [LossScaleOptimizer, TfKerasOptimizer])
@pytest.mark.parametrize("inner", [T.Adam, T.legacy.Adam], ids=["new", "legacy"])
def test_a_checkpoint_of_tf_keras_is_refused_with_an_inner_optimizer_of_keras_3(
    kind, inner, tmp_path
):
    saved = training(kind, inner)
    saved.step()
    path = saved.checkpoint().save(tmp_path / "checkpoint")
    restored = k3_training(LossScaleOptimizer)
    with pytest.raises(ValueError, match="with an inner optimizer of keras"):
        restored.checkpoint().restore(path)


@pytest.mark.parametrize("kind", [LossScaleOptimizer, K.LossScaleOptimizer])
def test_a_checkpoint_of_keras_3_is_refused_with_an_inner_optimizer_of_tf_keras(kind, tmp_path):
    saved = k3_training(kind)
    k3_step(saved)
    path = saved.checkpoint().save(tmp_path / "checkpoint")
    restored = training(LossScaleOptimizer, T.Adam)
    with pytest.raises(ValueError, match="with an inner optimizer of tf_keras"):
        restored.checkpoint().restore(path)


def test_the_checkpoint_of_an_optimizer_of_keras_3_alone_is_refused(tmp_path):
    alone = Training(K.Adam(0.1), keras.Variable([1.0, 5.0]))
    alone.optimizer.apply([tf.ones([2])], [alone.weight])
    path = alone.checkpoint().save(tmp_path / "checkpoint")
    restored = k3_training(LossScaleOptimizer)
    with pytest.raises(ValueError, match=r"optimizer=optimizer\.inner_optimizer"):
        restored.checkpoint().restore(path)


@INNER_OPTIMIZERS
def test_a_fixed_scale_is_a_constant_that_no_checkpoint_changes(inner, tmp_path):
    saved = training(LossScaleOptimizer, inner, dynamic=False, initial_scale=64.0)
    saved.step()
    saved.step(INF)
    path = saved.checkpoint().save(tmp_path / "checkpoint")
    restored = training(LossScaleOptimizer, inner, dynamic=False, initial_scale=32.0)
    restored.step()
    restored.checkpoint().restore(path).assert_consumed()
    assert float(restored.optimizer.loss_scale) == 32.0
    assert int(restored.optimizer.skipped_steps) == 1


def test_a_step_is_exported_with_the_variables_of_its_optimizer(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable([1.0, 2.0])
    module.optimizer = LossScaleOptimizer(T.legacy.SGD(0.25), **SCALE)

    @tf.function(input_signature=[])
    def step() -> None:
        module.optimizer.minimize(lambda: tf.reduce_sum(module.weight**2), [module.weight])

    module.step = step
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    loaded.step()
    assert loaded.weight.numpy().tolist() == [0.5, 1.0]
