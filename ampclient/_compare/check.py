"""`Check`: one assertion about one job, and whether it holds."""

from dataclasses import dataclass
from typing import Any, Literal

from ampclient._job.view import JobView
from ampspec.comparison.assertions import SUCCEEDED, number_text
from ampspec.telemetry.json_values import json_safe

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Check:
    """An assertion about one job, and whether it holds."""

    assertion: str
    job: JobView
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
        document: dict[str, Any] = json_safe(
            {
                "assertion": self.assertion,
                "job": self.job.id,
                "outcome": self.outcome,
                "value": self.value,
                "base": self.base,
                "message": self.message,
            }
        )
        return document
