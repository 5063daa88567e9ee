"""What earlier jobs tell about the time that those of a study will take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ampspec.jobs import JobSpec


@dataclass(frozen=True)
class EarlierJobs:
    """What is known from succeeded jobs with the same model and data."""

    train_examples: int | None
    """The examples of an epoch in whole batches."""
    throughputs: Mapping[str, float]
    """By policy: examples per second."""

    @classmethod
    def of(cls, rows: Sequence[Any]) -> "EarlierJobs":
        """The newest of the rows decide."""
        return cls(_train_examples(rows), _throughputs(rows))

    def train_s(self, specs: Sequence[JobSpec], steps: Sequence[int]) -> float | None:
        """The seconds of training; None if no job is known."""
        if not self.throughputs:
            return None
        usual = fmean(self.throughputs.values())
        return sum(
            count * spec.global_batch_size / self.throughputs.get(spec.precision.policy, usual)
            for spec, count in zip(specs, steps, strict=True)
        )


def ranks_of(spec: Mapping[str, Any]) -> int:
    """The ranks in the spec of a job, which may be older than they are."""
    runtime = spec["runtime"]
    return int(runtime.get("workers", 1) * runtime.get("devices", 1))


def _train_examples(rows: Sequence[Any]) -> int | None:
    """Of the newest job that trained whole epochs."""
    for row in rows:
        train, batch_size = row.spec["train"], row.spec["data"]["batch_size"]
        if train["steps"] is None and row.total_steps:
            steps = row.total_steps // train["epochs"]
            return int(steps * batch_size * train["accumulate"] * ranks_of(row.spec))
    return None


def _throughputs(rows: Sequence[Any]) -> Mapping[str, float]:
    speeds: dict[str, float] = {}
    for row in rows:
        speed = {**(row.totals or {}), **(row.summary or {})}.get("median_examples_per_s")
        if isinstance(speed, int | float) and speed > 0:
            speeds.setdefault(row.resolved_policy or row.policy, float(speed))
    return speeds
