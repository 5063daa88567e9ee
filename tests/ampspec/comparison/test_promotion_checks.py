"""Whether one version may replace another: what examples can tell, and what they cannot."""

import random

import pytest

from ampspec.comparison.assertions import Assertion
from ampspec.comparison.promotion_checks import Evaluated, check_promotion
from ampspec.studies.precision.example_results import ExampleResults
from tests.tables import every_row


def evaluated(values, *, name="val_accuracy", digest="rows"):
    mean = sum(values) / len(values)
    results = ExampleResults(len(values), digest, {name: values}, {name: mean})
    return Evaluated("digits:1", {name: mean}, results, {"kind": "digits"})


def outcome(text, version, current):
    [check] = check_promotion([Assertion.parse(text)], version, current)
    return check.outcome


def right(count, rows):
    return [1.0] * count + [0.0] * (rows - count)


@every_row(
    ("text", "expected"),
    [
        ("val_accuracy >= base", "undecided"),
        ("val_accuracy > base - 2 points", "passed"),
        ("val_accuracy within 2 points", "passed"),
        ("val_accuracy within 2 point", "passed"),
        ("val_accuracy within 0.1 points", "undecided"),
        ("val_accuracy >= 0.97x", "passed"),
        ("val_accuracy >= base + 2 points", "failed"),
        ("val_accuracy <= base - 2 points", "failed"),
        ("val_accuracy >= 1.03x", "failed"),
        ("val_accuracy >= 0.95", "failed"),
        ("val_accuracy >= 0.9", "passed"),
    ],
)
def test_equal_predictions_are_equal_only_within_a_margin(text, expected):
    """1,000 examples without a difference still allow 0.39 % that differ."""
    model = evaluated(right(900, 1000))
    assert outcome(text, model, model) == expected


def test_a_version_as_good_as_the_current_one_is_rarely_found_worse_or_better():
    chance = random.Random(1)
    outcomes = []
    for _ in range(300):
        models = [evaluated([float(chance.random() < 0.8) for _ in range(300)]) for _ in range(2)]
        outcomes.append(outcome("val_accuracy >= base", *models))
    # 2 % on each side.
    assert outcomes.count("failed") <= 15
    assert outcomes.count("passed") <= 15


def test_losses_are_compared_by_their_own_spread():
    chance = random.Random(2)
    losses = [chance.random() for _ in range(200)]
    current = evaluated(losses, name="val_loss")
    better = evaluated([loss - 0.1 for loss in losses], name="val_loss")
    assert outcome("val_loss <= base", better, current) == "passed"
    assert outcome("val_loss <= base", current, better) == "failed"
    assert outcome("val_loss <= base", current, current) == "passed"
    noisy = evaluated([loss + chance.gauss(0.0, 1.0) for loss in losses], name="val_loss")
    assert outcome("val_loss within 1 %", noisy, current) == "undecided"


def test_one_example_decides_nothing():
    assert outcome("val_loss <= base", *[evaluated([0.5], name="val_loss")] * 2) == "undecided"


def test_a_value_that_is_not_finite_never_passes():
    current = evaluated([0.5, 0.6], name="val_loss")
    version = Evaluated("digits:2", {"val_loss": float("nan")}, None, None)
    assert outcome("val_loss <= base", version, current) == "failed"
    assert outcome("val_loss <= 3", version, current) == "failed"


def test_the_advice_is_enough():
    """With as many examples as advised, differences of the same rate decide."""

    def models(scale):
        worse, better, same = round(40 * scale), round(60 * scale), round(3900 * scale)
        first, second = [1.0] * worse + [0.0] * better, [0.0] * worse + [1.0] * better
        return [evaluated(part + [1.0] * same) for part in (second, first)]

    [check] = check_promotion([Assertion.parse("val_accuracy >= base")], *models(1))
    assert check.outcome == "undecided"
    advised = int(check.message.split("about ")[1].split(" ")[0].replace(",", ""))
    assert 4000 < advised < 12_000
    assert outcome("val_accuracy >= base", *models(advised / 4000)) == "passed"


def test_a_metric_that_is_no_mean_over_examples_is_undecided():
    model = evaluated(right(90, 100))
    versions = [
        Evaluated("digits:2", {**model.values, "val_auc": 0.9}, model.examples, model.data)
        for _ in range(2)
    ]
    [check] = check_promotion([Assertion.parse("val_auc >= base")], *versions)
    assert (check.outcome, "is not a mean over" in check.message) == ("undecided", True)


@pytest.mark.parametrize("name", ["final_loss", "median_examples_per_s"])
def test_other_results_are_compared_as_single_values(name):
    versions = [Evaluated(f"m:{value}", {name: value}) for value in (2.0, 1.0)]
    assert outcome(f"{name} >= base", *versions) == "passed"
    assert outcome(f"{name} >= base", *versions[::-1]) == "failed"
