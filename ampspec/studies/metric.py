"""Selects the metric that a study compares."""

from collections.abc import Sequence
from typing import Final

from ampspec.data.data import SplitData
from ampspec.jobs import JobSpec, Problem
from ampspec.objectives.metrics import better
from ampspec.studies.plan import JobResult, NoAnswer

PREFERRED_METRICS: Final = ("val_accuracy", "val_loss")


def validation_problems(spec: JobSpec) -> list[Problem]:
    """The problem of a spec without validation examples; its pointer is into the request.

    A file may contain a validation split of its own; only a job can tell.
    """
    if not isinstance(spec.data, SplitData) or spec.data.validation_split:
        return []
    expected = "a share above 0, since the study compares a metric of validation examples"
    pointer = "/spec/data/validation_split"
    return [Problem(pointer, "no_validation_data", expected, "0")]


def baseline_metric(
    spec: JobSpec, requested: str | None, baseline: Sequence[JobResult]
) -> tuple[str, bool]:
    """The metric that is compared, and whether higher values of it are better.

    Args:
        spec: The job spec of the study.
        requested: The metric that the options name; None: the metric of `train.best`, else one of
            `PREFERRED_METRICS`.
        baseline: The results of float32 that succeeded.

    Raises NoAnswer if they do not report it, or if it has no direction.
    """
    reported = (
        set.intersection(*(set(result.metrics) for result in baseline)) if baseline else set()
    )
    return _chosen(spec, requested, reported if baseline else None)


def searched_metric(
    spec: JobSpec, requested: str | None, direction: str | None, succeeded: Sequence[JobResult]
) -> tuple[str, bool]:
    """The metric that a search improves, and whether higher values of it are better.

    Unlike in `baseline_metric`, some jobs may lack it because they diverged.

    Args:
        spec: The job spec of the study.
        requested: The metric that the options name; None: chosen as in `baseline_metric`.
        direction: min or max; None: the mode of `train.best`, or the usual direction of the metric.
        succeeded: The results of the jobs that trained to their end, at least one.

    Raises NoAnswer if none of them reports it, or if it has no direction.
    """
    reported = {name for result in succeeded for name in result.metrics}
    return _chosen(spec, requested, reported, direction)


def _chosen(
    spec: JobSpec,
    requested: str | None,
    reported: set[str] | None,
    requested_direction: str | None = None,
) -> tuple[str, bool]:
    best = spec.train.best
    default = best.metric if best is not None else None
    preferred = next(
        (name for name in PREFERRED_METRICS if name in (reported or ())), PREFERRED_METRICS[-1]
    )
    metric = requested or default or preferred
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
    direction = requested_direction or usual
    if direction is None:
        raise NoAnswer(
            f"{metric} does not say whether lower or higher is better: set train.best to "
            "{metric: …, mode: min} or max."
        )
    return metric, direction == "max"
