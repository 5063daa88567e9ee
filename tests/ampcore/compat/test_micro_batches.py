"""Gradients that a loop adds up before it applies them, some of them repaired by the loop."""

from itertools import product
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

    def __init__(self, initial_scale: float = 8.0) -> None:
        self.weight, self.sum = tf.Variable([0.0]), tf.Variable([0.0])
        self.optimizer = LossScaleOptimizer(
            keras.optimizers.SGD(1.0), initial_scale=initial_scale, dynamic_growth_steps=100
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


def apply_in_another_function(loop: Loop) -> Any:
    """A function that runs once for each micro-batch, and one that applies the sum."""

    @tf.function
    def accumulate(x: Any) -> None:
        loop.sum.assign_add(loop.micro_batch(x))

    @tf.function
    def apply() -> None:
        loop.apply(loop.sum.read_value())
        loop.sum.assign([0.0])

    return lambda xs: [*map(accumulate, tf.unstack(tf.constant(xs))), apply()]


def apply_eagerly_after_functions(loop: Loop) -> Any:
    micro_batch = tf.function(loop.micro_batch)
    return lambda xs: loop.apply(tf.add_n([micro_batch(x) for x in tf.unstack(tf.constant(xs))]))


def apply_in_a_function_after_eager_code(loop: Loop) -> Any:
    apply = tf.function(loop.apply)
    return lambda xs: apply(tf.add_n([loop.micro_batch(x) for x in tf.unstack(tf.constant(xs))]))


def apply_around_called_functions(loop: Loop) -> Any:
    """A function that calls another one for each micro-batch, which is traced only once."""
    micro_batch = tf.function(loop.micro_batch)

    @tf.function
    def run(xs: Any) -> None:
        loop.apply(tf.add_n([micro_batch(x) for x in tf.unstack(xs)]))

    return lambda xs: run(tf.constant(xs))


FORMS = pytest.mark.parametrize(
    "form",
    [
        apply_in_a_branch,
        apply_after_a_loop,
        apply_after_an_unrolled_loop,
        apply_in_eager_code,
        apply_in_another_function,
        apply_eagerly_after_functions,
        apply_in_a_function_after_eager_code,
        apply_around_called_functions,
    ],
)


@FORMS
def test_a_repaired_micro_batch_skips_the_step_and_lowers_the_scale(form):
    loop = Loop(initial_scale=2.0**12)  # it is halved eight times
    step = form(loop)
    xs = [[1.0]] * MICRO_BATCHES
    step(xs)
    for count, (position, value) in enumerate(product(range(MICRO_BATCHES), [INF, NAN]), 1):
        place = f"{value} in micro-batch {position}"
        scale = float(loop.optimizer.loss_scale)
        step([*xs[:position], [value], *xs[position + 1 :]])
        assert float(loop.weight[0]) == -count * MICRO_BATCHES, place
        assert float(loop.optimizer.loss_scale) == scale / 2, place
        assert int(loop.optimizer.skipped_steps) == int(loop.optimizer.iterations) == count, place
        step(xs)
        assert float(loop.weight[0]) == -(count + 1) * MICRO_BATCHES, "the next step is applied"
        assert float(loop.optimizer.loss_scale) == scale / 2, place


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


@pytest.mark.parametrize("compile_xla", [False, True])
def test_scaled_gradients_can_be_unscaled_and_applied_in_another_function(compile_xla):
    loop = Loop()
    loop.optimizer.build([loop.weight])

    @tf.function
    def scaled_gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            scaled = loop.optimizer.get_scaled_loss(tf.reduce_sum(loop.weight * x))
        return tape.gradient(scaled, loop.weight)

    @tf.function(jit_compile=compile_xla)
    def apply(grad: Any) -> None:
        loop.apply(loop.optimizer.get_unscaled_gradients([grad])[0])

    for value, weight, scale in ((1.0, -2.0, 8.0), (INF, -2.0, 4.0), (1.0, -4.0, 4.0)):
        apply(scaled_gradient(tf.constant([1.0])) + scaled_gradient(tf.constant([value])))
        assert (float(loop.weight[0]), float(loop.optimizer.loss_scale)) == (weight, scale)
    assert int(loop.optimizer.skipped_steps) == 1


@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_two_groups_can_be_applied_after_functions_in_every_step(in_function):
    loop, bias = Loop(), tf.Variable([0.0])
    loop.optimizer.build([loop.weight, bias])
    micro_batch = tf.function(loop.micro_batch)

    def apply(grad: Any) -> None:
        loop.apply(grad)
        loop.optimizer.apply_gradients([(2.0 * grad, bias)])

    apply_both = tf.function(apply) if in_function else apply
    for value, expected in ((1.0, -2.0), (INF, -2.0), (1.0, -4.0)):
        apply_both(micro_batch(tf.constant([value])))
        assert float(bias[0]) == 2 * float(loop.weight[0]) == expected
    assert int(loop.optimizer.iterations) == 2


@pytest.mark.parametrize(
    ("in_function", "error"),
    [(False, RuntimeError), (True, tf.errors.InvalidArgumentError)],
    ids=["eager", "function"],
)
def test_a_group_that_is_applied_outside_of_the_code_of_the_first_one_is_an_error(
    in_function, error
):
    """The first group's decision is out of reach there."""
    loop, bias = Loop(), tf.Variable([0.0])
    loop.optimizer.build([loop.weight, bias])

    @tf.function
    def step(x: Any) -> Any:
        grad = loop.micro_batch(x)
        loop.apply(grad)
        return grad

    def apply(grad: Any) -> None:
        loop.optimizer.apply_gradients([(grad, bias)])

    grad = step(tf.constant([1.0]))
    with pytest.raises(error, match=r"since the last apply_gradients. Received: none"):
        (tf.function(apply) if in_function else apply)(grad)
    assert float(bias[0]) == 0.0


@pytest.mark.parametrize(
    ("in_function", "error"),
    [(False, RuntimeError), (True, tf.errors.InvalidArgumentError)],
    ids=["eager", "function"],
)
def test_gradients_that_are_unscaled_after_a_decision_elsewhere_are_an_error(in_function, error):
    """The decision may have changed the scale."""
    loop = Loop()
    loop.optimizer.build([loop.weight])
    tf.function(lambda x: loop.apply(loop.micro_batch(x)))(tf.constant([1.0]))

    def unscale(grad: Any) -> Any:
        return loop.optimizer.get_unscaled_gradients([grad])

    with pytest.raises(error, match="expected a call of get_scaled_loss since the last"):
        (tf.function(unscale) if in_function else unscale)(tf.constant([1.0]))


def test_xla_which_drops_assertions_applies_nothing_without_a_step():
    loop = Loop()
    loop.optimizer.build([loop.weight])
    tf.function(lambda x: loop.apply(loop.micro_batch(x)))(tf.constant([1.0]))

    @tf.function(jit_compile=True)
    def apply(grad: Any) -> None:
        loop.apply(loop.optimizer.get_unscaled_gradients([grad])[0])

    apply(tf.constant([1.0]))
    assert float(loop.weight[0]) == -1.0


def test_a_group_that_is_applied_after_the_branch_of_the_first_one_is_refused():
    loop, bias = Loop(), tf.Variable([0.0])
    loop.optimizer.build([loop.weight, bias])

    @tf.function
    def step(x: Any) -> None:
        if x[0] > 0.0:
            loop.apply(loop.micro_batch(x))
        loop.optimizer.apply_gradients([(x, bias)])

    with pytest.raises(RuntimeError, match="in the same function, branch or loop body"):
        step(tf.constant([1.0]))
