import random
from statistics import stdev

import pytest

from ampspec.studies.statistics.mean_difference import MeanDifference
from ampspec.studies.statistics.paired_test import (
    LEVEL,
    MAX_SEEDS,
    POWER,
    SHARE_MARGIN,
    NoiseBand,
    compare,
    default_margin,
    seeds_needed,
)

FLOAT32 = [0.952, 0.956, 0.949, 0.954, 0.951]
"""The accuracy of float32 with five seeds: a standard deviation of 0.27 points."""


def compared(differences, float32=FLOAT32, margin=SHARE_MARGIN, **options):
    difference, band = MeanDifference.of_seeds(differences), NoiseBand.of(float32)
    return compare(difference, band, margin, **{"higher_is_better": True, **options})


def test_the_noise_band_is_that_of_the_seeds():
    band = NoiseBand.of(FLOAT32)
    assert band.deviation == stdev(FLOAT32)
    assert band.half_width == 1.96 * stdev(FLOAT32)
    assert NoiseBand.of(FLOAT32, margin=0.02).half_width == 0.02


def test_a_policy_that_is_1_point_worse_is_worse():
    comparison = compared([-0.010, -0.012, -0.009, -0.011, -0.008])
    assert (comparison.verdict, comparison.more_seeds) == ("worse", None)
    assert comparison.interval[0] < -0.01 < comparison.interval[1] < 0


def test_an_equal_policy_is_equal():
    comparison = compared([0.001, -0.001, 0.0005, -0.0008, 0.0002])
    assert comparison.verdict == "equal"
    assert comparison.interval[0] < 0 < comparison.interval[1]


def test_a_policy_that_is_1_point_better_is_better_and_with_a_loss_worse():
    differences = [0.010, 0.012, 0.009, 0.011, 0.008]
    assert compared(differences).verdict == "better"
    assert compared(differences, higher_is_better=False).verdict == "worse"


def test_a_real_difference_within_the_margin_is_equal_while_it_is_inside_of_the_noise():
    """Larger than the noise of the seeds, it is only equal to someone who has asked for that."""
    comparison = compared([-0.0010, -0.0011, -0.0009, -0.0010, -0.0010])
    assert comparison.interval[1] < 0
    assert comparison.verdict == "equal"
    larger = [-0.0080, -0.0081, -0.0079, -0.0080, -0.0080]
    assert compared(larger).verdict == "worse"
    assert compared(larger, is_asked=True).verdict == "equal"


def test_a_wide_noise_band_does_not_make_a_policy_that_loses_a_point_equal():
    """Seeds of float32 that are 5 points apart; each policy loses 1.5 points to its pair."""
    float32 = [0.90, 0.95, 0.88]
    assert compared([-0.0150, -0.0155, -0.0145], float32).verdict == "worse"
    assert compared([-0.0150, -0.0300, 0.0], float32).verdict == "cannot tell"


def test_too_few_seeds_cannot_tell_and_say_how_many_more_would():
    comparison = compared([0.014, -0.013], float32=FLOAT32[:2])
    assert comparison.verdict == "cannot tell"
    assert comparison.more_seeds is not None
    assert comparison.more_seeds > 2
    assert compared([0.004]).more_seeds == 1


def test_results_without_any_noise_are_compared_exactly():
    same = [0.95, 0.95, 0.95]
    assert compared([0.0, 0.0, 0.0], same).verdict == "equal"
    assert compared([-0.01, -0.01, -0.01], same).verdict == "worse"


def test_the_margin_is_one_point_of_shares_and_a_twentieth_of_other_metrics():
    assert default_margin("val_accuracy", 0.5) == default_margin("val_auc", 0.9) == 0.01
    assert default_margin("val_loss", 0.4) == pytest.approx(0.02)


@pytest.mark.parametrize("shift", [0.0, -0.03])
def test_the_recommended_number_of_seeds_decides_with_the_promised_probability(shift):
    """Differences are drawn from a known distribution."""
    deviation, margin, rounds = 0.01, 0.012, 400
    known = MeanDifference(shift, 100, deviation**2, 0.0, 99)
    seeds = seeds_needed(known, margin)
    assert seeds is not None
    assert seeds < MAX_SEEDS
    chance = random.Random(7)
    band = NoiseBand(0.9, 0.0, 1.0)
    verdicts = [
        compare(
            MeanDifference.of_seeds([chance.gauss(shift, deviation) for _ in range(seeds)]),
            band,
            margin,
            higher_is_better=True,
        ).verdict
        for _ in range(rounds)
    ]
    expected = "equal" if shift == 0.0 else "worse"
    assert verdicts.count(expected) / rounds > POWER - 0.05
    assert verdicts.count("better") / rounds <= LEVEL + 0.01


def test_a_policy_at_the_edge_of_the_margin_is_rarely_called_equal():
    chance = random.Random(3)
    verdicts = [
        compared([chance.gauss(-0.01, 0.01) for _ in range(5)], [0.8, 0.9]).verdict
        for _ in range(1000)
    ]
    assert verdicts.count("equal") / len(verdicts) <= LEVEL
