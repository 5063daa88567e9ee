"""The outcome of assertions about a comparison: `comparison.check([...])`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ampclient.assertions import SUCCEEDED, Assertion, number_text, value_named
from ampspec.jobs import State
from ampspec.telemetry.json_values import json_safe

if TYPE_CHECKING:
    from ampclient.comparison import Comparison
    from ampclient.job_view import JobView

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Check:
    """An assertion about one job, and whether it holds."""

    assertion: str
    job: "JobView"
    outcome: Outcome
    """Skipped: the job or the baseline has not succeeded."""
    value: float | None = None
    """The job's value."""
    base: float | None = None
    """The baseline's value, if the assertion is about it."""
    allowed: str = ""
    """The values that the assertion allows."""

    @property
    def message(self) -> str:
        """What was expected and what was received."""
        if self.outcome == "skipped":
            return f"{self.assertion}: not checked, because a job has not succeeded"
        if self.value is None:
            return f"expected {SUCCEEDED}; received {self.job.state}"
        baseline = "" if self.base is None else f" (the baseline has {number_text(self.base)})"
        received = number_text(self.value)
        return f"{self.assertion}: expected {self.allowed}{baseline}; received {received}"

    def to_json(self) -> dict[str, Any]:
        """The check as JSON; non-finite numbers are strings."""
        made: dict[str, Any] = json_safe(
            {
                "assertion": self.assertion,
                "job": self.job.id,
                "outcome": self.outcome,
                "value": self.value,
                "base": self.base,
                "message": self.message,
            }
        )
        return made


@dataclass(frozen=True)
class Checks:
    """All checks of a comparison, by job."""

    baseline: "JobView"
    checks: tuple[Check, ...]

    def __iter__(self) -> Iterator[Check]:
        """The checks."""
        return iter(self.checks)

    @property
    def failures(self) -> list[Check]:
        """The checks that do not hold."""
        return [check for check in self.checks if check.outcome == "failed"]

    @property
    def passed(self) -> bool:
        """Whether every assertion holds for every job."""
        return all(check.outcome == "passed" for check in self.checks)

    def to_junit(self) -> str:
        """JUnit XML with a test case for each assertion and job."""
        from ampclient.check_reports import junit_xml

        return junit_xml(self)

    def to_markdown(self) -> str:
        """A table for a summary, such as that of a step of GitHub Actions."""
        from ampclient.check_reports import markdown

        return markdown(self)


def check(comparison: "Comparison", assertions: Sequence[str]) -> Checks:
    """Check every assertion for each job but the baseline. Raises InvalidAssertion."""
    parsed = [Assertion.parse(text) for text in assertions]
    jobs = [compared.job for compared in comparison.jobs]
    base = next(index for index, job in enumerate(jobs) if job.id == comparison.baseline)
    values = _values(comparison)
    made = [_state(job) for job in jobs]
    for index, job in enumerate(jobs):
        if index == base:
            continue
        for one in parsed:
            if not all(_succeeded(each) for each in (job, jobs[base])):
                made.append(Check(one.text, job, "skipped"))
            else:
                made.append(_check(one, jobs, values, index, base))
    return Checks(jobs[base], tuple(made))


def _succeeded(job: "JobView") -> bool:
    return job.state == State.SUCCEEDED


def _state(job: "JobView") -> Check:
    return Check(SUCCEEDED, job, "passed" if _succeeded(job) else "failed")


def _check(
    assertion: Assertion,
    jobs: Sequence["JobView"],
    values: Mapping[str, Sequence[float | None]],
    index: int,
    base: int,
) -> Check:
    value = value_named(assertion.name, jobs[index].id, values, index)
    other = (
        value_named(assertion.name, jobs[base].id, values, base) if assertion.needs_base else None
    )
    reference = 0.0 if other is None else other  # 0: it does not matter
    outcome: Outcome = "passed" if assertion.holds(value, reference) else "failed"
    allowed = _allowed(assertion, reference)
    return Check(assertion.text, jobs[index], outcome, value, other, allowed)


def _allowed(assertion: Assertion, base: float) -> str:
    least, most = assertion.bounds(base)
    if assertion.operator == "within":
        return f"{number_text(least)} to {number_text(most)}"
    return f"{assertion.operator} {number_text(least if math.isinf(most) else most)}"


def _values(comparison: "Comparison") -> dict[str, list[float | None]]:
    """The numbers of a comparison by name, in the order of its jobs."""
    found = {
        result.name: [_number(value) for value in result.values] for result in comparison.results
    }
    found["speedup"] = [compared.speedup for compared in comparison.jobs]
    found["loss_drift"] = [compared.loss_drift for compared in comparison.jobs]
    return {name: each for name, each in found.items() if any(one is not None for one in each)}


def _number(value: Any) -> float | None:
    """A number of the API, where non-finite numbers are strings; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
