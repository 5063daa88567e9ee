"""The variance of a mean difference, on tables whose variances are known."""

import random

import pytest

from ampspec.studies.statistics.mean_difference import MeanDifference


def drawn(chance, *, seeds=3, examples=400, of_seed=0.0, of_example=0.0, rest=0.1):
    """Two tables by seed and example: the policy has these deviations from float32."""
    shifts = [chance.gauss(0.0, of_example) for _ in range(examples)]
    float32, policy = [], []
    for _ in range(seeds):
        shift = chance.gauss(0.0, of_seed)
        row = [chance.gauss(0.5, rest / 2**0.5) for _ in range(examples)]
        float32.append(row)
        policy.append([chance.gauss(0.5 + shift + one, rest / 2**0.5) for one in shifts])
    return float32, policy


@pytest.mark.parametrize(
    "spread", [{"of_example": 0.0}, {"of_example": 0.1}, {"of_seed": 0.01}], ids=str
)
def test_the_interval_has_the_true_difference_as_often_as_it_promises(spread):
    chance = random.Random(1)
    rounds = 300
    outside = 0
    for _ in range(rounds):
        tables = drawn(chance, examples=200, **spread)
        low, high = MeanDifference.of_examples(*tables, 200, is_share=False).interval(0.02)
        outside += not low <= 0.0 <= high
    assert outside / rounds <= 0.06


def test_examples_tell_more_than_the_means_of_three_seeds():
    """The same tables; the means alone have a t distribution with 2 degrees of freedom."""
    chance = random.Random(2)
    by_example, by_seed = 0.0, 0.0
    for _ in range(50):
        float32, policy = drawn(chance)
        means = [
            sum(ours) / 400 - sum(theirs) / 400
            for ours, theirs in zip(policy, float32, strict=True)
        ]
        low, high = MeanDifference.of_examples(float32, policy, 400, is_share=False).interval(0.02)
        by_example += high - low
        low, high = MeanDifference.of_seeds(means).interval(0.02)
        by_seed += high - low
    assert by_example < 0.9 * by_seed


def test_more_seeds_do_not_average_out_which_examples_there_are():
    float32, policy = drawn(random.Random(3), of_example=0.5)
    difference = MeanDifference.of_examples(float32, policy, 400, is_share=False)
    assert difference.example_variance == pytest.approx(0.25 / 400, rel=0.3)
    assert difference.standard_error(1000) ** 2 == pytest.approx(
        difference.example_variance, rel=0.01
    )


def test_few_examples_without_any_difference_do_not_prove_that_there_is_none():
    """A policy that fails on 1 % of all examples fails on none of 90 with a probability of 40 %."""
    same = [[1.0] * 90] * 3
    assert MeanDifference.of_examples(same, same, 90, is_share=True).interval(0.02)[0] < -0.03
    assert MeanDifference.of_examples(same, same, 90, is_share=True).examples_for(4.0) == 360
    many = [[1.0] * 4000] * 3
    assert MeanDifference.of_examples(many, many, 4000, is_share=True).interval(0.02)[0] > -0.002
