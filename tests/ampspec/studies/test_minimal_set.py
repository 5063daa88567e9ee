"""The search finds exactly what is required, with few trials."""

from collections.abc import Sequence
from math import log2

from hypothesis import given
from hypothesis import strategies as st

from ampspec.studies.bisect.minimal_set import minimal_set, without_unneeded


class Trials:
    """Counts trials; those with all required candidates pass."""

    def __init__(self, *alternatives: set[int]) -> None:
        self.alternatives = alternatives
        self.tried: list[tuple[int, ...]] = []

    def __call__(self, candidates: Sequence[int]) -> bool:
        self.tried.append(tuple(candidates))
        return any(required <= set(candidates) for required in self.alternatives)


@st.composite
def lists_with_needed(draw: st.DrawFn) -> tuple[int, set[int]]:
    size = draw(st.integers(1, 60))
    return size, draw(st.sets(st.integers(0, size - 1), max_size=4))


@given(lists_with_needed(), st.booleans())
def test_exactly_the_needed_candidates_are_found(case: tuple[int, set[int]], first: bool) -> None:
    size, required = case
    trials = Trials(required)
    assert minimal_set(range(size), trials, likely_first=first) == sorted(required)
    bound = len(required) * (log2(size) + 2) * (2 if first else 1) + 1
    assert len(trials.tried) <= bound
    assert len(set(trials.tried)) == len(trials.tried)


@given(lists_with_needed(), lists_with_needed())
def test_of_two_ways_one_is_found_that_needs_all_of_its_candidates(
    one: tuple[int, set[int]], other: tuple[int, set[int]]
) -> None:
    ways = Trials(one[1], other[1])
    chosen = minimal_set(range(max(one[0], other[0])), ways)
    assert ways(chosen)
    assert not any(ways([item for item in chosen if item != left_out]) for left_out in chosen)


def test_needed_candidates_at_the_start_take_few_trials() -> None:
    trials = Trials({0, 1})
    assert minimal_set(range(1000), trials, likely_first=True) == [0, 1]
    assert len(trials.tried) == 5


def test_two_of_forty_take_at_most_fifteen_trials() -> None:
    counts = set()
    for first in range(40):
        for second in range(first):
            trials = Trials({first, second})
            assert minimal_set(range(40), trials) == [second, first]
            counts.add(len(trials.tried))
    assert max(counts) <= 15


@given(st.sets(st.integers(0, 5)))
def test_unneeded_items_are_left_out_one_by_one(required: set[int]) -> None:
    trials = Trials(required)
    assert without_unneeded(range(6), trials) == sorted(required)
    assert len(trials.tried) == 6
