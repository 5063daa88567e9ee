import random
from statistics import stdev

import pytest

from ampcore.lab.paired_test import (
    LEVEL,
    MAX_SEEDS,
    POWER,
    NoiseBand,
    compare,
    seeds_needed,
)

FLOAT32 = [0.952, 0.956, 0.949, 0.954, 0.951]
"""The accuracy of float32 with five seeds: a standard deviation of 0.27 points."""


def compared(differences, float32=FLOAT32, margin=0.0):
    return compare(differences, NoiseBand.of(float32, margin), higher_is_better=True)


def test_the_noise_band_is_that_of_the_seeds():
    band = NoiseBand.of(FLOAT32)
    assert band.deviation == stdev(FLOAT32)
    assert band.half_width == 1.96 * stdev(FLOAT32)
    assert NoiseBand.of(FLOAT32, margin=0.02).half_width == 0.02


def test_a_policy_that_is_1_point_worse_is_worse():
    found = compared([-0.010, -0.012, -0.009, -0.011, -0.008])
    assert (found.verdict, found.more_seeds) == ("worse", None)
    assert found.interval[0] < -0.01 < found.interval[1] < 0


def test_an_equal_policy_is_equal():
    found = compared([0.001, -0.001, 0.0005, -0.0008, 0.0002])
    assert found.verdict == "equal"
    assert found.interval[0] < 0 < found.interval[1]


def test_a_policy_that_is_1_point_better_is_better_and_with_a_loss_worse():
    differences = [0.010, 0.012, 0.009, 0.011, 0.008]
    assert compared(differences).verdict == "better"
    band = NoiseBand.of(FLOAT32)
    assert compare(differences, band, higher_is_better=False).verdict == "worse"


def test_a_small_difference_that_is_no_chance_is_equal_while_it_is_inside_of_the_noise():
    found = compared([-0.0010, -0.0011, -0.0009, -0.0010, -0.0010])
    assert found.interval[1] < 0
    assert found.verdict == "equal"


def test_too_few_seeds_cannot_tell_and_say_how_many_more_would():
    found = compared([0.004, -0.003], float32=FLOAT32[:2])
    assert found.verdict == "cannot tell"
    assert found.more_seeds is not None
    assert found.more_seeds > 2
    assert compared([0.004]).more_seeds == 1


def test_a_difference_at_the_edge_of_the_band_needs_too_many_seeds_to_count():
    band = NoiseBand.of(FLOAT32)
    edge = band.half_width
    differences = [edge * 1.0001, edge * 0.9, edge * 1.0999]
    assert seeds_needed(edge, 1.0, edge) is None
    found = compare(differences, NoiseBand.of(FLOAT32), higher_is_better=True)
    assert found.verdict != "equal"


def test_results_without_any_noise_are_compared_exactly():
    same = [0.95, 0.95, 0.95]
    assert compared([0.0, 0.0, 0.0], same).verdict == "equal"
    assert compared([-0.01, -0.01, -0.01], same).verdict == "worse"


@pytest.mark.parametrize("shift", [0.0, -0.03])
def test_the_recommended_number_of_seeds_decides_with_the_promised_probability(shift):
    """Differences are drawn from a known distribution; the band is given."""
    deviation, half_width, rounds = 0.01, 0.012, 400
    seeds = seeds_needed(shift, deviation, half_width)
    assert seeds is not None
    assert seeds < MAX_SEEDS
    chance = random.Random(7)
    band = NoiseBand(0.0, 0.0, half_width)
    verdicts = [
        compare(
            [chance.gauss(shift, deviation) for _ in range(seeds)], band, higher_is_better=True
        ).verdict
        for _ in range(rounds)
    ]
    wanted = "equal" if shift == 0.0 else "worse"
    assert verdicts.count(wanted) / rounds > POWER - 0.05
    assert verdicts.count("better") / rounds < LEVEL


def test_a_policy_at_the_edge_of_the_band_is_rarely_called_equal():
    chance = random.Random(3)
    band = NoiseBand(0.0, 0.0, 0.01)
    verdicts = [
        compare([chance.gauss(-0.01, 0.01) for _ in range(5)], band, higher_is_better=True).verdict
        for _ in range(1000)
    ]
    assert verdicts.count("equal") / len(verdicts) <= LEVEL + 0.02
