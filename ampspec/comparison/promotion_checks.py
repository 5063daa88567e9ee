"""Whether a version of a model may replace another one: assertions about both, with evidence.

An assertion against a number is decided by the measured value, as `ampctl compare --assert` does.
One against the current version is about a difference of two trained models, which a few validation
examples cannot show. So it is decided by the interval of the mean difference over the examples that
both were evaluated on: it passes if the whole interval satisfies it, fails if none of it does, and
is undecided otherwise.

The models are compared as they are, with their seeds: the examples are the only sample.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ampspec.comparison.assertions import Assertion, number_text, value_named
from ampspec.objectives.metrics import is_share
from ampspec.studies.precision.example_results import ExampleResults
from ampspec.studies.statistics.mean_difference import MeanDifference
from ampspec.studies.statistics.paired_test import LEVEL, POWER

Outcome = Literal["passed", "failed", "undecided", "skipped"]

VALIDATION: Final = "val_"
"""How the names of metrics of validation examples begin."""
MEAN_TOLERANCE: Final = 1e-3
"""Maximum relative deviation of the examples' mean from the metric, due to rounding."""


MAX_RATIO: Final = 1000.0
"""A difference that is smaller than the interval by this factor is taken for none."""


@dataclass(frozen=True)
class Evaluated:
    """A version to compare.

    Attributes:
        label: How messages name it, such as `digits:3`.
        values: Its results by name.
        examples: Its metrics by validation example; None if they are not known.
        data: The fields of its spec that say which rows are evaluated, and against what.
    """

    label: str
    values: Mapping[str, float]
    examples: ExampleResults | None = None
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PromotionCheck:
    """An assertion about a version, and whether it holds.

    Attributes:
        assertion: As it was written.
        outcome: `undecided`: the examples do not tell; `skipped`: there is nothing to compare with.
        value: The version's value.
        base: The value of the current version, if the assertion is about it.
        interval: Where the difference from the bound is, with 96 % confidence, in the direction
            in which the assertion holds above 0; None unless examples were compared.
        examples: How many examples were compared.
        message: What was expected and what was received, and what would decide it.
    """

    assertion: str
    outcome: Outcome
    value: float
    base: float | None
    interval: tuple[float, float] | None
    examples: int | None
    message: str


def check_promotion(
    assertions: Sequence[Assertion], version: Evaluated, current: Evaluated | None
) -> list[PromotionCheck]:
    """Check assertions about a version; `base` in them is the current version.

    Args:
        assertions: What must hold.
        version: The version that would get the alias.
        current: The version that has it; None: none has.

    Raises:
        InvalidAssertion: A version has no value of that name.
    """
    return [_check(assertion, version, current) for assertion in assertions]


def is_promoted(checks: Sequence[PromotionCheck]) -> bool:
    """Whether no assertion failed, and none is undecided."""
    return all(check.outcome in ("passed", "skipped") for check in checks)


def _check(assertion: Assertion, version: Evaluated, current: Evaluated | None) -> PromotionCheck:
    value = _value(assertion, version)
    if not assertion.needs_base:
        return _by_value(assertion, value, None)
    if current is None:
        message = f"{assertion.text}: not checked, because no version has the alias yet"
        return PromotionCheck(assertion.text, "skipped", value, None, None, None, message)
    base = _value(assertion, current)
    if not assertion.name.startswith(VALIDATION) or not math.isfinite(value + base):
        return _by_value(assertion, value, base)
    obstacle = _obstacle(assertion.name, version, current)
    if obstacle is not None:
        message = f"{assertion.text}: cannot tell. {obstacle}"
        return PromotionCheck(assertion.text, "undecided", value, base, None, None, message)
    return _by_examples(assertion, version, current)


def _value(assertion: Assertion, version: Evaluated) -> float:
    values = {name: [number] for name, number in version.values.items()}
    return value_named(assertion.name, version.label, values, 0, owner="version")


def _by_value(assertion: Assertion, value: float, base: float | None) -> PromotionCheck:
    reference = 0.0 if base is None else base
    outcome: Outcome = "passed" if assertion.holds(value, reference) else "failed"
    message = _expectation(assertion, value, base)
    return PromotionCheck(assertion.text, outcome, value, base, None, None, message)


def _obstacle(name: str, version: Evaluated, current: Evaluated) -> str | None:
    """Why single examples cannot be compared, and what helps; None if they can."""
    against_number = f"Or assert a number, as in '{name} >= 0.9'."
    for side in (version, current):
        if side.examples is None:
            return (
                f"{side.label} has no metrics of single validation examples, so it is not known "
                f"how much a difference means. {against_number}"
            )
        if name not in side.examples.values:
            return f"{name} is not a mean over validation examples. {against_number}"
        mean, value = side.examples.means[name], side.values[name]
        if abs(mean - value) > MEAN_TOLERANCE * max(abs(value), 0.01):
            return (
                f"{name} of {side.label} is not the mean of its validation examples. "
                f"{against_number}"
            )
    if version.data != current.data:
        fields = sorted(
            field
            for field in {*(version.data or {}), *(current.data or {})}
            if (version.data or {}).get(field) != (current.data or {}).get(field)
        )
        changed = ", ".join(f"data.{field}" for field in fields)
        return (
            f"{version.label} and {current.label} were evaluated on different data ({changed}). "
            f"Train and evaluate both on the same version of a dataset. {against_number}"
        )
    if (
        version.examples is not None
        and current.examples is not None
        and version.examples.digest != current.examples.digest
    ):
        return (
            f"{version.label} and {current.label} were evaluated on different rows. Use the same "
            f"data.split_seed and validation split for both. {against_number}"
        )
    return None


def _by_examples(assertion: Assertion, version: Evaluated, current: Evaluated) -> PromotionCheck:
    name = assertion.name
    mine, theirs = version.examples, current.examples
    if mine is None or theirs is None:  # _obstacle has checked it
        raise TypeError("expected metrics of validation examples")
    value, base = version.values[name], current.values[name]
    outcomes: list[tuple[Outcome, MeanDifference]] = []
    for factor, offset, sign in _bounds(assertion, base):
        # Positive where the assertion holds.
        distances = [
            sign * (mine_value - factor * base_value - offset)
            for mine_value, base_value in zip(mine.values[name], theirs.values[name], strict=True)
        ]
        mean = sign * (mine.means[name] - factor * theirs.means[name] - offset)
        difference = MeanDifference.of_pair(
            distances, mine.rows, mean=mean, is_share=is_share(name)
        )
        low, high = difference.interval(LEVEL)
        outcome: Outcome = "passed" if low >= 0.0 else "failed" if high < 0.0 else "undecided"
        outcomes.append((outcome, difference))
    outcome, difference = min(outcomes, key=lambda entry: _ORDER.index(entry[0]))
    message = _expectation(assertion, value, base)
    if outcome == "undecided":
        message = f"{message}. Cannot tell: {_advice(difference, mine.rows)}"
    interval = difference.interval(LEVEL)
    return PromotionCheck(assertion.text, outcome, value, base, interval, mine.rows, message)


_ORDER: Final[Sequence[Outcome]] = ("failed", "undecided", "passed")
"""The outcome of several bounds is the first of these that one has."""


def _bounds(assertion: Assertion, base: float) -> list[tuple[float, float, int]]:
    """Bounds `factor` × base + `offset`, and 1 for a least value, -1 for a largest one."""
    share = assertion.share * (1.0 if base >= 0.0 else -1.0)
    if assertion.operator == "within":
        return [(1.0 - share, -assertion.offset, 1), (1.0 + share, assertion.offset, -1)]
    sign = 1 if assertion.operator.startswith(">") else -1
    return [(assertion.factor + share, assertion.offset, sign)]


def _expectation(assertion: Assertion, value: float, base: float | None) -> str:
    reference = "" if base is None else f" (the current version has {number_text(base)})"
    allowed = assertion.allowed_text(0.0 if base is None else base)
    return f"{assertion.text}: expected {allowed}{reference}; received {number_text(value)}"


def _advice(difference: MeanDifference, examples: int) -> str:
    """What would decide an undecided assertion."""
    low, high = difference.interval(LEVEL)
    quantiles = difference.quantile(1.0 - LEVEL) + difference.quantile(POWER)
    needed_distance = quantiles * difference.standard_error()
    example_count = (
        None
        if abs(difference.mean) <= needed_distance / MAX_RATIO
        else difference.examples_for(needed_distance / abs(difference.mean))
    )
    rows = (
        "no number of examples that one could collect would decide it"
        if example_count is None
        else f"about {max(example_count, examples + 1):,} examples would probably decide it"
    )
    margin = number_text(max(-low, 0.0))
    return (
        f"with {examples:,} validation examples the difference from this bound is between "
        f"{number_text(low)} and {number_text(high)}; {rows}, or a bound that allows {margin} more."
    )
