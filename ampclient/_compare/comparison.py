"""Comparisons of jobs: aligned series, and how their specs and results differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ampclient._display import notebook_html
from ampclient._job.view import JobView
from ampclient._telemetry.step_sample import SkippedSteps, columns_in, skipped_in
from ampspec.api.job.comparison import Difference, Result

if TYPE_CHECKING:
    from ampclient._compare.checks import Checks
    from ampspec.telemetry.steps.block import Column


@dataclass(frozen=True, eq=False)
class ComparedJob:
    """One job of a comparison: `data["loss.mean"]` is an array with one value a point.

    A point summarises the steps with the same step // `steps_per_point`, so points of several jobs
    with the same index cover the same steps: the first `step`, the `count` of steps, the number
    `skipped`, `elapsed_s` (the seconds that all steps of the job took up to the end of the point),
    and for each other column `loss.min`, `.max`, `.first`, `.last` and `.mean`.

    `speedup` is the median of examples/s divided by the baseline's. `loss_drift` is the mean loss
    over the last tenth of the steps that both jobs have, divided by the baseline's, minus 1. Both
    are None where they cannot be computed.
    """

    job: JobView
    speedup: float | None
    loss_drift: float | None
    skipped_steps: SkippedSteps
    data: "Mapping[str, Column]"
    evaluations: "Mapping[str, Column]"
    """`step`, `epoch`, `elapsed_s` and a column for each metric, such as `val_loss`."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Parse one job of a comparison."""
        return cls(
            JobView.from_json(document["job"]),
            _number(document["speedup"]),
            _number(document["loss_drift"]),
            skipped_in(document["skipped_steps"]),
            columns_in(document["data"]),
            _evaluations_in(document.get("evaluations", {})),  # servers before 0.6 send none
        )


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison of jobs; all values are in the order of `jobs`."""

    baseline: str
    """The id of the job that the others are compared with."""
    steps_per_point: int
    jobs: list[ComparedJob]
    spec: list[Difference]
    results: list[Result]
    document: Mapping[str, Any]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Parse a response. Raises KeyError, TypeError or ValueError if it is invalid."""
        return cls(
            document["baseline"],
            document["steps_per_point"],
            [ComparedJob.from_json(job) for job in document["jobs"]],
            [Difference.from_json(difference) for difference in document["spec"]],
            [Result.from_json(result) for result in document["results"]],
            document,
        )

    def check(self, assertions: Sequence[str]) -> "Checks":
        """Check assertions for each job but the baseline, and that every job has succeeded.

        Args:
            assertions: Such as "val_accuracy within 0.5 points", "examples_per_s >= 0.95x" or
                "skipped_share <= 1 %". Names are those of `results`, `speedup` and `loss_drift`;
                `loss`, `examples_per_s` and `peak_memory` are short for final_loss,
                median_examples_per_s and peak_memory_bytes.

        Raises:
            InvalidAssertion: An assertion is malformed, or a job has no value of that name.
        """
        from ampclient._compare.checks import check

        jobs = [compared.job for compared in self.jobs]
        return check(jobs, self.baseline, self._numbers(), assertions)

    def _numbers(self) -> dict[str, list[float | None]]:
        """The numbers by name, in the order of the jobs; without those that no job has."""
        numbers = {
            result.name: [_parsed(value) for value in result.values] for result in self.results
        }
        numbers["speedup"] = [compared.speedup for compared in self.jobs]
        numbers["loss_drift"] = [compared.loss_drift for compared in self.jobs]
        return {
            name: values
            for name, values in numbers.items()
            if any(value is not None for value in values)
        }

    def to_json(self) -> dict[str, Any]:
        """The document that the server sent: valid JSON, with non-finite numbers as strings."""
        return dict(self.document)

    def to_pandas(self) -> Any:
        """The results as a pandas.DataFrame with a row per job, indexed by its id."""
        import pandas

        ids = [compared.job.id for compared in self.jobs]
        columns: dict[str, Sequence[Any]] = {"job": [c.job.name for c in self.jobs]}
        columns |= {result.name: result.values for result in self.results}
        columns["speedup"] = [compared.speedup for compared in self.jobs]
        columns["loss_drift"] = [compared.loss_drift for compared in self.jobs]
        return pandas.DataFrame(columns, index=pandas.Index(ids, name="id"))

    def _repr_html_(self) -> str:
        names = [self._heading(compared.job) for compared in self.jobs]
        rows: list[list[Any]] = [[d.pointer, *d.values] for d in self.spec]
        rows += [[result.name, *result.values] for result in self.results]
        rows.append(["speedup", *(compared.speedup for compared in self.jobs)])
        rows.append(["loss_drift", *(compared.loss_drift for compared in self.jobs)])
        return notebook_html.table(["", *names], rows)

    def _heading(self, job: JobView) -> str:
        return f"{job.name} (baseline)" if job.id == self.baseline else job.name


def _evaluations_in(columns: Mapping[str, Any]) -> "dict[str, Column]":
    import numpy as np

    from ampspec.telemetry.json_values import column_from_json

    integers = ("step", "epoch")
    return {
        name: np.asarray(column_from_json(values), np.int64 if name in integers else np.float64)
        for name, values in columns.items()
    }


def _number(value: float | str | None) -> float | None:
    """A number of the API, where non-finite numbers are strings."""
    return None if value is None else float(value)


def _parsed(value: Any) -> float | None:
    """A number of the API, where non-finite numbers are strings; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
