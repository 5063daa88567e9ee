"""Whatever happens, no more is spent than the share of the run's time and one last cost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore.diagnostics.sampling_budget import SamplingBudget

SECONDS = st.floats(0.0, 1e4)
RUNS = st.lists(st.tuples(SECONDS, SECONDS, st.booleans()), max_size=30)
"""The time of some steps, the cost of a sample after them, and whether the run is interrupted."""


class Clock:
    """A clock that the test sets."""

    now = 5.0

    def __call__(self):
        return self.now


def restored(budget, clock):
    """The budget of the next process, which starts some time later."""
    document = json.loads(json.dumps(budget.to_json()))
    clock.now += 1e6
    following = SamplingBudget(clock)
    following.restore(document)
    return following


@given(RUNS, st.floats(0.0, 0.5))
def test_what_is_spent_is_at_most_the_share_and_one_cost(run, share):
    clock = Clock()
    budget, run_s, spent_s = SamplingBudget(clock), 0.0, 0.0
    for steps_s, cost_s, is_interrupted in run:
        clock.now += steps_s
        run_s += steps_s
        allowed = budget.allows(share)
        assert allowed == (budget.spent_s <= share * budget.run_s)
        if allowed:
            before_s = spent_s
            with budget.spending():
                clock.now += cost_s
            run_s, spent_s = run_s + cost_s, spent_s + cost_s
            assert before_s <= share * (run_s - cost_s) + 1e-3
        if is_interrupted:
            budget = restored(budget, clock)
        assert budget.run_s == pytest.approx(run_s, abs=1e-3)
        assert budget.spent_s == pytest.approx(spent_s, abs=1e-3)


@given(SECONDS, SECONDS, st.floats(0.001, 1.0))
def test_an_expected_cost_counts_as_if_it_was_spent(spent_s, cost_s, share):
    before, after = SamplingBudget(Clock()), SamplingBudget(Clock())
    before.spend(spent_s)
    after.spend(spent_s + cost_s)
    assert before.allows(share, cost_s, of_s=100.0) == after.allows(share, of_s=100.0)


def test_a_failed_sample_is_spent_too():
    clock = Clock()
    budget = SamplingBudget(clock)

    def sample():
        with budget.spending():
            clock.now += 2.0
            raise MemoryError

    with pytest.raises(MemoryError):
        sample()
    assert budget.spent_s == budget.last_s == 2.0
