"""What a study of precision answers, and how often rightly; one JSON line for each result.

Simulated trainings: each example has a distance from the decision boundary, each training moves all
of them together (`seed_points`, the standard deviation of the accuracy of infinitely many examples)
and each one by itself; a pair of one seed shares a part of that. The policy is truly worse by
`points`. Three such populations differ in how many examples change between trainings.

With `--trained`, the jobs of some studies are trained for real, as in `truth/policies.py`.
"""

import argparse
import math
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from compare import report
from numpy.typing import NDArray

from ampspec.studies.statistics.mean_difference import MeanDifference
from ampspec.studies.statistics.paired_test import SHARE_MARGIN, NoiseBand, compare

sys.path.insert(0, str(Path(__file__).parent))

Array = NDArray[Any]
TRAINED_STUDIES: Final = 4
TRAINED: Final = (
    "inputs offset by 200 before BatchNormalization, 5 % random split, bfloat16, three seeds",
    "inputs offset by 200 before BatchNormalization, half of 24,000 rows, bfloat16",
    "a plain MLP, bfloat16",
    "digits, convolutions, float16",
)
SEEDS: Final = (2, 3, 4, 5, 8)
POINTS: Final = (0.0, 1.0, 2.0)
EXAMPLES: Final = (500, 2000, 10_000)
GOAL_FALSE_EQUAL: Final = 0.02
GOAL_FALSE_ALARM: Final = 0.05


@dataclass(frozen=True)
class Population:
    """Trainings of a model.

    Args:
        name: As in the table.
        accuracy: Of float32, on average.
        noise: How far a training moves each example by itself; 1 is the spread of the examples.
        seed_noise: How far it moves all of them together.
        shared: The correlation of the two trainings of a pair.
    """

    name: str
    accuracy: float
    noise: float
    seed_noise: float
    shared: float


POPULATIONS: Final = (
    Population("converged: pairs alike", 0.95, 0.15, 0.01, 0.9),
    Population("converged: pairs differ", 0.95, 0.15, 0.01, 0.0),
    Population("short training", 0.90, 0.4, 0.03, 0.5),
)


def draw(
    population: Population, random: np.random.Generator, seeds: int, examples: int, points: float
) -> tuple[Array, Array]:
    """Which examples float32 and the policy have right, by seed and example."""
    spread = math.sqrt(1.0 + population.noise**2 + population.seed_noise**2)
    normal = NormalDist()
    mean = spread * normal.inv_cdf(population.accuracy)
    worse = spread * normal.inv_cdf(population.accuracy - points / 100)
    distance = random.standard_normal(examples)
    rest = math.sqrt(1.0 - population.shared**2)

    def pair(*shape: int) -> tuple[Array, Array]:
        first, other = random.standard_normal(shape), random.standard_normal(shape)
        return first, population.shared * first + rest * other

    together, alone = pair(seeds, 1), pair(seeds, examples)
    return tuple(  # type: ignore[return-value]  # two
        (center + distance + population.seed_noise * seed + population.noise * example > 0).astype(
            np.float64
        )
        for center, seed, example in zip((mean, worse), together, alone, strict=True)
    )


def answer(float32: Array, policy: Array, *, by_example: bool) -> str:
    """The verdict about a policy, as a study has it."""
    means = float32.mean(axis=1)
    difference = (
        MeanDifference.of_examples(
            _grouped(float32), _grouped(policy), float32.shape[1], is_share=True
        )
        if by_example
        else MeanDifference.of_seeds([*(policy.mean(axis=1) - means)])
    )
    band = NoiseBand.of(means.tolist())
    return compare(difference, band, SHARE_MARGIN, higher_is_better=True).verdict


def _grouped(table: Array) -> list[list[float]]:
    """As in the results of a study; fewer groups are faster to simulate."""
    size = max(1, table.shape[1] // 250)
    groups: list[list[float]] = table.reshape(len(table), -1, size).mean(axis=2).tolist()
    return groups


def simulate(
    population: Population, seeds: int, examples: int, points: float, rounds: int
) -> dict[str, Counter[str]]:
    """The verdicts of many studies, by example and by seed alone."""
    random = np.random.default_rng([seeds, examples, round(10 * points)])
    verdicts: dict[str, Counter[str]] = {"by_example": Counter(), "by_seed": Counter()}
    for _ in range(rounds):
        tables = draw(population, random, seeds, examples, points)
        for name, counts in verdicts.items():
            counts[answer(*tables, by_example=name == "by_example")] += 1
    return verdicts


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="studies of each kind (200)")
    parser.add_argument("--trained", action="store_true", help="train small networks, too")
    options = parser.parse_args()
    for examples in EXAMPLES:
        for population in POPULATIONS:
            for seeds in SEEDS:
                _report_power(population, seeds, examples, options.rounds)
    if options.trained:
        _report_trained()


def _report_power(population: Population, seeds: int, examples: int, rounds: int) -> None:
    shares: dict[str, dict[str, float]] = {"by_example": {}, "by_seed": {}}
    for points in POINTS:
        for name, counts in simulate(population, seeds, examples, points, rounds).items():
            total = counts.total()
            if points == 0.0:
                shares[name]["equal_if_equal"] = counts["equal"] / total
                shares[name]["false_alarm"] = (counts["worse"] + counts["better"]) / total
            else:
                shares[name][f"worse_if_{points:g}_points"] = counts["worse"] / total
                shares[name][f"false_equal_if_{points:g}_points"] = counts["equal"] / total
    report(
        "study_power",
        population=population.name,
        examples=examples,
        seeds=seeds,
        rounds=rounds,
        goal_false_equal=GOAL_FALSE_EQUAL,
        goal_false_alarm=GOAL_FALSE_ALARM,
        **shares,
    )


def _report_trained() -> None:
    """The verdicts of studies whose jobs are trained: each with data and seeds of its own."""
    from truth.policies import CASES

    for case in CASES:
        if case.name not in TRAINED:
            continue
        outcomes = [case.fault().ask(seed) for seed in range(TRAINED_STUDIES)]
        report(
            "study_power_trained",
            case=case.name,
            expected=case.expected,
            seeds=case.seeds,
            outcomes=dict(Counter(outcome.verdict.value for outcome in outcomes)),
            answers=[outcome.answer for outcome in outcomes],
        )


if __name__ == "__main__":
    main()
