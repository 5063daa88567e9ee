"""Which metric a study compares."""

from collections.abc import Sequence
from typing import Final

from ampspec.data.data import SplitData
from ampspec.jobs import JobSpec, Problem
from ampspec.objectives.metrics import better
from ampspec.studies.plan import JobResult, NoAnswer

PREFERRED_METRICS: Final = ("val_accuracy", "val_loss")


def validation_problems(spec: JobSpec) -> list[Problem]:
    """The mistake of a spec that keeps no examples for validation; a pointer into the request.

    Data from files may have a part of its own for validation: then only a job tells.
    """
    if not isinstance(spec.data, SplitData) or spec.data.validation_split:
        return []
    expected = "a share above 0, since the study compares a metric of validation examples"
    pointer = "/spec/data/validation_split"
    return [Problem(pointer, "no_validation_data", expected, "0")]


def baseline_metric(
    spec: JobSpec, wanted: str | None, baseline: Sequence[JobResult]
) -> tuple[str, bool]:
    """The metric that is compared, and whether higher values of it are better.

    Args:
        spec: Of the question.
        wanted: The metric that the options name; None: that of `train.best`, else a preferred one.
        baseline: The results of float32 that succeeded.

    Raises NoAnswer if they do not report it, or if it has no direction.
    """
    reported = set.intersection(*(set(one.metrics) for one in baseline)) if baseline else set()
    return _chosen(spec, wanted, reported if baseline else None)


def searched_metric(
    spec: JobSpec, wanted: str | None, direction: str | None, succeeded: Sequence[JobResult]
) -> tuple[str, bool]:
    """The metric that a search improves, and whether higher values of it are better.

    Other than in `baseline_metric`, some jobs may lack it: their numbers did not work out.

    Args:
        spec: Of the question.
        wanted: As for `baseline_metric`.
        direction: min or max; None: that of `train.best`, or the usual one of the metric.
        succeeded: The results of the jobs that trained to their end, at least one.

    Raises NoAnswer if none of them reports it, or if it has no direction.
    """
    reported = {name for one in succeeded for name in one.metrics}
    return _chosen(spec, wanted, reported, direction)


def _chosen(
    spec: JobSpec, wanted: str | None, reported: set[str] | None, given: str | None = None
) -> tuple[str, bool]:
    best = spec.train.best
    default = best.metric if best is not None else None
    found = next(
        (name for name in PREFERRED_METRICS if name in (reported or ())), PREFERRED_METRICS[-1]
    )
    metric = wanted or default or found
    if reported is not None and metric not in reported:
        if not reported:
            raise NoAnswer(
                f"The jobs report no finite {metric}, nor another metric of validation examples. "
                "Without such examples set data.validation_split, for example to 0.2."
            )
        names = ", ".join(sorted(reported))
        raise NoAnswer(f"The jobs report no finite {metric}; they report: {names}.")
    mode = best.mode if best is not None and best.metric == metric else "auto"
    usual = mode if mode != "auto" else better(metric.removeprefix("val_"))
    direction = given or usual
    if direction is None:
        raise NoAnswer(
            f"{metric} does not say whether lower or higher is better: set train.best to "
            "{metric: …, mode: min} or max."
        )
    return metric, direction == "max"
