"""Gradients that a loop adds up before it applies them, some of them repaired by the loop."""

from typing import Any

import keras
import pytest
import tensorflow as tf

from ampcore.compat import LossScaleOptimizer

INF, NAN = float("inf"), float("nan")
MICRO_BATCHES = 4


def repaired(grad: Any) -> Any:
    """The gradient without its infinities."""
    return tf.where(tf.math.is_finite(grad), grad, 0.0)


class Loop:
    """One weight, whose gradient is the input, and the sum of its gradients."""

    def __init__(self) -> None:
        self.weight, self.sum = tf.Variable([0.0]), tf.Variable([0.0])
        self.optimizer = LossScaleOptimizer(
            keras.optimizers.SGD(1.0), initial_scale=8.0, dynamic_growth_steps=100
        )
        self.count = tf.Variable(0)

    def micro_batch(self, x: Any) -> Any:
        with tf.GradientTape() as tape:
            scaled = self.optimizer.get_scaled_loss(tf.reduce_sum(self.weight * x))
        [grad] = self.optimizer.get_unscaled_gradients(tape.gradient(scaled, [self.weight]))
        return repaired(grad)

    def apply(self, grad: Any) -> None:
        self.optimizer.apply_gradients([(grad, self.weight)])


def apply_in_a_branch(loop: Loop) -> Any:
    """A function that runs once for each micro-batch, and applies in the last run."""

    @tf.function
    def run(x: Any) -> None:
        loop.sum.assign_add(loop.micro_batch(x))
        loop.count.assign_add(1)
        if loop.count % MICRO_BATCHES == 0:
            loop.apply(loop.sum.read_value())
            loop.sum.assign([0.0])

    return lambda xs: [run(x) for x in tf.unstack(tf.constant(xs))]


def apply_after_a_loop(loop: Loop) -> Any:
    """A function with a loop over the micro-batches of a step."""

    @tf.function
    def run(xs: Any) -> None:
        total = tf.zeros([1])
        for x in xs:
            total += loop.micro_batch(x)
        loop.apply(total)

    return lambda xs: run(tf.constant(xs))


def apply_after_an_unrolled_loop(loop: Loop) -> Any:
    """A function whose loop Python runs."""

    @tf.function
    def run(xs: Any) -> None:
        loop.apply(tf.add_n([loop.micro_batch(x) for x in tf.unstack(xs)]))

    return lambda xs: run(tf.constant(xs))


def apply_in_eager_code(loop: Loop) -> Any:
    return lambda xs: loop.apply(tf.add_n([loop.micro_batch(tf.constant(x)) for x in xs]))


FORMS = pytest.mark.parametrize(
    "form",
    [apply_in_a_branch, apply_after_a_loop, apply_after_an_unrolled_loop, apply_in_eager_code],
)


@FORMS
@pytest.mark.parametrize("value", [INF, NAN])
@pytest.mark.parametrize("position", range(MICRO_BATCHES))
def test_a_repaired_micro_batch_skips_the_step_and_lowers_the_scale(form, value, position):
    loop = Loop()
    step = form(loop)
    xs = [[1.0]] * MICRO_BATCHES
    step(xs)
    assert float(loop.weight[0]) == -MICRO_BATCHES
    step([*xs[:position], [value], *xs[position + 1 :]])
    assert float(loop.weight[0]) == -MICRO_BATCHES
    assert float(loop.optimizer.loss_scale) == 4.0
    assert int(loop.optimizer.skipped_steps) == int(loop.optimizer.iterations) == 1
    step(xs)
    assert float(loop.weight[0]) == -2 * MICRO_BATCHES, "the next step is applied"
    assert float(loop.optimizer.loss_scale) == 4.0


@FORMS
def test_each_step_of_finite_micro_batches_counts_once(form):
    loop = Loop()
    step = form(loop)
    for _ in range(3):
        step([[1.0]] * MICRO_BATCHES)
    assert float(loop.weight[0]) == -3 * MICRO_BATCHES
    assert int(loop.optimizer.dynamic_counter) == int(loop.optimizer.iterations) == 3


def test_a_second_group_can_be_applied_after_a_loop():
    loop, bias = Loop(), tf.Variable([0.0])
    loop.optimizer.build([loop.weight, bias])

    @tf.function
    def step(xs: Any) -> None:
        total = tf.zeros([1])
        for x in xs:
            total += loop.micro_batch(x)
        loop.apply(total)
        loop.optimizer.apply_gradients([(2.0 * total, bias)])

    for xs, expected in (([[1.0], [1.0]], -4.0), ([[1.0], [INF]], -4.0)):
        step(tf.constant(xs))
        assert float(bias[0]) == expected
    assert int(loop.optimizer.skipped_steps) == int(loop.optimizer.iterations) == 1


def test_gradients_of_a_function_that_the_step_calls_are_refused_in_the_first_step():
    """A second trace of the step would not trace the called function again."""
    loop = Loop()
    micro_batch = tf.function(loop.micro_batch)
    step = tf.function(lambda x: loop.apply(micro_batch(x)), autograph=False)
    with pytest.raises(RuntimeError, match="expected gradients of get_unscaled_gradients"):
        step(tf.constant([1.0]))
