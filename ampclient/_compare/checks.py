"""The outcome of assertions about a comparison: `comparison.check([...])`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ampclient._compare.check import Check, Outcome
from ampclient._job.view import JobView
from ampspec.comparison.assertions import SUCCEEDED, Assertion, value_named
from ampspec.jobs import State

Values = Mapping[str, Sequence[float | None]]
"""The numbers of a comparison by name, in the order of its jobs."""


@dataclass(frozen=True)
class Checks:
    """All checks of a comparison, by job."""

    baseline: JobView
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
        from ampclient._compare.check_reports import junit_xml

        return junit_xml(self.checks)

    def to_markdown(self) -> str:
        """A table for a summary, such as that of a step of GitHub Actions."""
        from ampclient._compare.check_reports import markdown

        return markdown(self.baseline, self.checks)


def check(
    jobs: Sequence[JobView], baseline: str, values: Values, assertions: Sequence[str]
) -> Checks:
    """Check every assertion for each job but the baseline. Raises InvalidAssertion."""
    parsed = [Assertion.parse(text) for text in assertions]
    base = next(index for index, job in enumerate(jobs) if job.id == baseline)
    checks = [_state(job) for job in jobs]
    for index, job in enumerate(jobs):
        if index == base:
            continue
        for assertion in parsed:
            if _succeeded(job) and _succeeded(jobs[base]):
                checks.append(_check(assertion, jobs, values, index, base))
            else:
                checks.append(Check(assertion.text, job, "skipped"))
    return Checks(jobs[base], tuple(checks))


def _succeeded(job: JobView) -> bool:
    return job.state == State.SUCCEEDED


def _state(job: JobView) -> Check:
    return Check(SUCCEEDED, job, "passed" if _succeeded(job) else "failed")


def _check(
    assertion: Assertion,
    jobs: Sequence[JobView],
    values: Values,
    index: int,
    base: int,
) -> Check:
    value = value_named(assertion.name, jobs[index].id, values, index)
    base_value = (
        value_named(assertion.name, jobs[base].id, values, base) if assertion.needs_base else None
    )
    reference = 0.0 if base_value is None else base_value  # 0: it does not matter
    outcome: Outcome = "passed" if assertion.holds(value, reference) else "failed"
    allowed = assertion.allowed_text(reference)
    return Check(assertion.text, jobs[index], outcome, value, base_value, allowed)
