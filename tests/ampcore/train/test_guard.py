import numpy as np
import pytest

from ampcore.errors import NonFiniteLoss, SkipBudgetExceeded
from ampcore.series import StepBlock
from ampcore.spec import Reason
from ampcore.train.guard import Guard

DYNAMIC = {"mode": "dynamic"}


def block(first_step, skipped=(), loss=None):
    loss = np.ones(len(skipped)) if loss is None else loss
    return StepBlock(first_step, {"loss": loss, "skipped": np.resize(skipped or False, len(loss))})


@pytest.fixture
def guard(job):
    def make(limit, **loss_scale):
        return Guard(job(loss_scale=loss_scale, guard={"max_consecutive_skips": limit}))

    return make


def test_skips_in_a_row_add_up_over_blocks(guard):
    watch = guard(3, **DYNAMIC)
    watch.observe(block(0, [True, False, True]))
    with pytest.raises(SkipBudgetExceeded, match="3 steps in a row, 2 to 4,") as caught:
        watch.observe(block(3, [True, True, True, True]))
    assert caught.value.reason is Reason.SKIP_BUDGET_EXCEEDED


def test_one_applied_step_starts_the_count_again(guard):
    watch = guard(3, **DYNAMIC)
    for first in range(0, 30, 3):
        watch.observe(block(first, [True, True, False]))


def test_without_a_finite_check_losses_that_are_not_finite_count(guard):
    watch = guard(2, mode="none")
    watch.observe(block(0, loss=[1.0, np.nan, 1.0, np.inf]))
    with pytest.raises(NonFiniteLoss, match=r"2 steps in a row, 3 to 4,.*lower") as caught:
        watch.observe(block(4, loss=[np.nan]))
    assert caught.value.reason is Reason.NON_FINITE_LOSS


def test_with_a_finite_check_only_skips_count(guard):
    guard(1, **DYNAMIC).observe(block(0, [False, False], loss=[np.nan, np.inf]))


@pytest.mark.parametrize(
    ("loss_scale", "advice"),
    [
        ({"mode": "fixed", "scale": 1e9}, r"lower loss_scale\.scale from 1e\+09"),
        ({"mode": "dynamic", "minimum": 512.0}, r"lower loss_scale\.minimum from 512"),
        (DYNAMIC, r"lower optimizer\.learning_rate\."),
    ],
)
def test_the_message_says_what_to_do(guard, loss_scale, advice):
    with pytest.raises(SkipBudgetExceeded, match=advice):
        guard(1, **loss_scale).observe(block(0, [True]))


def test_a_float16_run_is_told_of_bfloat16(job):
    spec = job(precision={"policy": "mixed_float16"}, guard={"max_consecutive_skips": 1})
    with pytest.raises(SkipBudgetExceeded, match=r"or set precision\.policy: mixed_bfloat16"):
        Guard(spec).observe(block(0, [True]))
