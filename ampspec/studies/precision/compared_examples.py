"""Compares the jobs of a study on the validation examples that they share."""

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Final

from ampspec.api.studies import ComparedRows
from ampspec.objectives.metrics import is_share
from ampspec.studies.plan import JobResult
from ampspec.studies.precision.example_results import ExampleResults
from ampspec.studies.statistics.mean_difference import MeanDifference
from ampspec.telemetry.metrics import finite_metrics, metrics_of

MEAN_TOLERANCE: Final = 1e-3
"""Maximum relative deviation of the examples' mean from the metric, due to rounding."""
CHANCE_ERRORS: Final = 2.0
"""Standard errors by which an accuracy above chance exceeds the largest class."""
CHANCE_LOSS: Final = 0.99
"""A loss better than chance is at most this share of the best constant prediction's loss."""


def shared_rows(jobs: Collection[JobResult]) -> ComparedRows | None:
    """The rows that all of these jobs were evaluated on; None if they differ or are not known."""
    examples = [job.examples for job in jobs]
    first = examples[0] if examples else None
    if first is None or any(
        results is None or results.digest != first.digest for results in examples
    ):
        return None
    split_seed = next(iter(jobs)).split_seed
    return ComparedRows(count=first.rows, split_seed=split_seed, digest=first.digest)


def mean_difference(
    metric: str, float32: Sequence[JobResult], policy: Sequence[JobResult]
) -> MeanDifference:
    """policy - float32 of jobs with the same seeds, by example where all jobs have the same."""
    by_seed = [
        job.metrics[metric] - reference.metrics[metric]
        for job, reference in zip(policy, float32, strict=True)
    ]
    ours, theirs = _table(metric, policy), _table(metric, float32)
    rows = shared_rows([*float32, *policy])
    if rows is None or len(by_seed) < 2 or not ours or not theirs:
        return MeanDifference.of_seeds(by_seed)
    return MeanDifference.of_examples(theirs, ours, rows.count, is_share=is_share(metric))


def changed_share(
    metric: str, float32: Sequence[JobResult], policy: Sequence[JobResult]
) -> float | None:
    """The share of examples whose metric differs; None if single examples are not known."""
    shares = []
    for pair in zip(float32, policy, strict=True):
        examples = [job.examples for job in pair if job.examples is not None]
        if len(examples) < 2 or not _are_single(metric, examples):
            return None
        values = [results.values[metric] for results in examples]
        shares.append(
            fmean(
                float32_value != policy_value
                for float32_value, policy_value in zip(*values, strict=True)
            )
        )
    return fmean(shares) if shares else None


def constant_metric(metric: str, jobs: Collection[JobResult]) -> float | None:
    """The metric of the best constant prediction; None if it is not known."""
    constants = [_constants(job).get(metric) for job in jobs]
    reported = [value for value in constants if value is not None]
    return fmean(reported) if reported else None


def learned_nothing(jobs: Collection[JobResult]) -> bool:
    """Whether these jobs are no better than a constant prediction in every known metric."""
    metrics = {name for job in jobs for name in _constants(job) if name in job.metrics}
    return bool(metrics) and all(_is_at_chance(name, jobs) for name in metrics)


def _is_at_chance(metric: str, jobs: Collection[JobResult]) -> bool:
    constant = constant_metric(metric, jobs)
    values = [job.metrics[metric] for job in jobs if metric in job.metrics]
    if constant is None or not values:
        return False
    if not is_share(metric):
        return fmean(values) >= CHANCE_LOSS * constant
    rows = min((job.examples.rows for job in jobs if job.examples is not None), default=10_000)
    error = math.sqrt(constant * max(1.0 - constant, 0.0) / rows)
    return fmean(values) <= constant + CHANCE_ERRORS * error


def _constants(job: JobResult) -> Mapping[str, float]:
    """The constant metrics reported by the job; older versions report none."""
    return finite_metrics(metrics_of(job.summary.get("constant_metrics")))


def _table(metric: str, jobs: Sequence[JobResult]) -> list[Sequence[float]]:
    """The example values of each job; empty if they do not match the metric of a job."""
    table: list[Sequence[float]] = []
    for job in jobs:
        examples, expected = job.examples, job.metrics[metric]
        if examples is None or metric not in examples.values:
            return []
        values, mean = examples.values[metric], examples.means[metric]
        if not abs(mean - expected) <= MEAN_TOLERANCE * max(abs(expected), 0.01):
            return []
        table.append(values)
    return table if len({len(values) for values in table}) == 1 else []


def _are_single(metric: str, examples: Sequence[ExampleResults]) -> bool:
    return all(results.rows == len(results.values.get(metric, ())) for results in examples)
