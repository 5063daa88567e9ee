import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore.training.run.guard import NonfiniteStepGuard, TooManyNonfiniteSteps
from ampspec.errors import NonFiniteLoss, SkipBudgetExceeded
from ampspec.jobs import Reason
from ampspec.telemetry import StepBlock

DYNAMIC = {"mode": "dynamic"}


def block(first_step, skipped=(), loss=None, norm=None):
    loss = np.ones(len(skipped)) if loss is None else loss
    norm = np.ones(len(loss)) if norm is None else norm
    columns = {"loss": loss, "skipped": np.resize(skipped or False, len(loss)), "grad_norm": norm}
    return StepBlock(first_step, columns)


@pytest.fixture
def error(job):
    """The error that ends a run of a spec with these parts, after a row of one step."""
    return lambda *, checked=True, **parts: TooManyNonfiniteSteps(4, 4, checked).error(job(**parts))


def test_consecutive_skips_are_counted_across_blocks():
    guard = NonfiniteStepGuard(3, checked=True)
    assert guard.observe(block(0, [True, False, True])) is None
    assert guard.observe(block(3, [True, True, True, True])) == TooManyNonfiniteSteps(
        2, 4, checked=True
    )
    assert guard.nonfinite_in_a_row == 5


def test_the_count_of_bad_steps_continues_from_a_checkpoint():
    assert NonfiniteStepGuard(3, checked=True, nonfinite_in_a_row=2).observe(
        block(7, [True])
    ) == TooManyNonfiniteSteps(5, 7, checked=True)


def test_an_applied_step_resets_the_count():
    guard = NonfiniteStepGuard(3, checked=True)
    for first in range(0, 30, 3):
        assert guard.observe(block(first, [True, True, False])) is None
    assert guard.nonfinite_in_a_row == 0


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5), st.integers(1, 7))
def test_the_guard_finds_the_first_nonfinite_in_a_row_at_the_limit(skipped, limit, size):
    guard, nonfinite_in_a_row, expected = NonfiniteStepGuard(limit, checked=True), 0, None
    for step, bad in enumerate(skipped):
        nonfinite_in_a_row = nonfinite_in_a_row + 1 if bad else 0
        if nonfinite_in_a_row == limit and expected is None:
            expected = TooManyNonfiniteSteps(step - limit + 1, step, checked=True)
    firsts = range(0, len(skipped), size)
    found = [guard.observe(block(first, skipped[first : first + size])) for first in firsts]
    assert next(filter(None, found), None) == expected
    assert guard.nonfinite_in_a_row == nonfinite_in_a_row


def test_without_a_finite_check_losses_that_are_not_finite_count():
    guard = NonfiniteStepGuard(2, checked=False)
    assert guard.observe(block(0, loss=[1.0, np.nan, 1.0, np.inf])) is None
    assert guard.observe(block(4, loss=[np.nan])) == TooManyNonfiniteSteps(3, 4, checked=False)


def test_without_a_finite_check_gradients_that_are_not_finite_count():
    guard = NonfiniteStepGuard(2, checked=False)
    found = guard.observe(block(0, loss=[1.0, 1.0, np.nan], norm=[1.0, np.inf, np.nan]))
    assert found == TooManyNonfiniteSteps(1, 2, checked=False)


@pytest.mark.parametrize("checked", [True, False])
def test_gradients_that_are_not_finite_damage_the_state_until_a_reset(checked):
    guard = NonfiniteStepGuard(9, checked=checked)
    guard.observe(block(0, loss=[1.0, 1.0, 1.0], norm=[1.0, np.inf, np.inf]))
    assert guard.damage == "the gradient norm of step 1 was not finite"
    guard.observe(block(3, loss=[1.0]))
    assert guard.damage == "the gradient norm of step 1 was not finite"
    guard.reset()
    assert guard.damage is None


@pytest.mark.parametrize("checked", [True, False])
def test_a_loss_that_is_not_finite_is_damage_until_the_next_applied_step(checked):
    guard = NonfiniteStepGuard(9, checked=checked)
    guard.observe(block(0, loss=[np.inf, 1.0, np.inf]))
    assert guard.damage == "the loss of step 2 was not finite"
    if checked:
        guard.observe(block(3, [True], loss=[1.0]))
        assert guard.damage == "the loss of step 2 was not finite"
    guard.observe(block(4, loss=[1.0]))
    assert guard.damage is None


def test_a_skipped_step_does_not_damage_the_state():
    guard = NonfiniteStepGuard(9, checked=True)
    guard.observe(block(0, [True], loss=[np.nan], norm=[np.inf]))
    assert guard.damage is None


def test_with_a_finite_check_only_skips_count():
    bad = block(0, [False, False], loss=[np.nan, np.inf])
    assert NonfiniteStepGuard(1, checked=True).observe(bad) is None


def test_the_error_of_consecutive_skips_names_the_steps(job):
    found = TooManyNonfiniteSteps(2, 4, checked=True).error(job(loss_scale=DYNAMIC))
    assert isinstance(found, SkipBudgetExceeded)
    assert found.reason is Reason.SKIP_BUDGET_EXCEEDED
    assert "3 steps in a row, 2 to 4," in str(found)


def test_the_error_of_losses_that_are_not_finite_names_the_steps(job):
    found = TooManyNonfiniteSteps(3, 4, checked=False).error(job(loss_scale={"mode": "none"}))
    assert isinstance(found, NonFiniteLoss)
    assert found.reason is Reason.NON_FINITE_LOSS
    assert "2 steps in a row, 3 to 4," in str(found)
    assert "lower" in str(found)


@pytest.mark.parametrize(
    ("loss_scale", "advice"),
    [
        ({"mode": "fixed", "scale": 1e9}, "lower loss_scale.scale from 1e+09"),
        ({"mode": "dynamic", "minimum": 512.0}, "lower loss_scale.minimum from 512"),
        (DYNAMIC, "lower optimizer.learning_rate."),
    ],
)
def test_the_message_of_the_error_gives_advice(error, loss_scale, advice):
    assert advice in str(error(loss_scale=loss_scale))


def test_the_error_of_a_float16_run_suggests_bfloat16(error):
    found = error(precision={"policy": "mixed_float16"})
    assert "or set precision.policy: mixed_bfloat16" in str(found)
