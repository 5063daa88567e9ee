from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ampcore.training.step.plan import BLOCK_S, GROWTH, AdaptiveBlockSize, Plan
from ampspec.training.training import Train


def sizes(step_s, compile_s=0.0, blocks=12, remaining=10**9):
    block_size, found = AdaptiveBlockSize(), []
    for index in range(blocks):
        size = block_size.next_size(remaining)
        found.append(size)
        block_size.observe(size, size * step_s + (compile_s if index == 0 else 0))
    return found


def test_the_first_block_is_one_step():
    assert sizes(step_s=1e-4)[0] == 1


@given(st.floats(1e-5, 10), st.floats(0, 20))
def test_blocks_grow_until_they_take_the_target_time(step_s, compile_s):
    found = sizes(step_s, compile_s)
    assert all(after <= before * GROWTH for before, after in pairwise(found))
    assert found[-1] == 1 or BLOCK_S / 2 < found[-1] * step_s <= BLOCK_S * 1.001


def test_a_block_is_no_longer_than_what_remains():
    assert max(sizes(step_s=1e-4, remaining=7)) == 7


def test_a_block_of_zero_seconds_does_not_divide_by_zero():
    block_size = AdaptiveBlockSize()
    block_size.observe(1, 0.0)
    assert block_size.next_size(100) == GROWTH


def plan(steps_per_epoch=5, **train):
    return Plan.from_spec(Train(**train), steps_per_epoch)


def test_steps_override_epochs_as_the_length_of_a_run():
    assert plan(epochs=3).total_steps == 15
    assert plan(epochs=3, steps=7).total_steps == 7


@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 50))
def test_blocks_within_epochs_cover_every_step_once(steps_per_epoch, steps, block):
    made, step = plan(steps_per_epoch, steps=steps), 0
    while step < made.total_steps:
        size = min(block, made.left_in_epoch(step))
        assert size >= 1
        assert made.position(step)[0] == made.position(step + size - 1)[0]
        step += size
    assert step == steps


def test_evaluation_is_due_after_the_requested_epochs_and_at_the_end():
    made = plan(steps=28, eval_every_epochs=2)
    assert [done for done in range(1, 29) if made.evaluates_after(done)] == [10, 20, 28]
