"""Which metric a study compares."""

from collections.abc import Sequence
from typing import Final

from ampcore.lab.plan import JobResult, NoAnswer
from ampcore.spec import JobSpec
from ampcore.spec.metrics import better

PREFERRED_METRICS: Final = ("val_accuracy", "val_loss")


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
    best = spec.train.best
    reported = set.intersection(*(set(one.metrics) for one in baseline)) if baseline else set()
    default = best.metric if best is not None else None
    found = next((name for name in PREFERRED_METRICS if name in reported), PREFERRED_METRICS[-1])
    metric = wanted or default or found
    if baseline and metric not in reported:
        names = ", ".join(sorted(reported)) or "none"
        raise NoAnswer(f"The jobs report no finite {metric}; they report: {names}.")
    mode = best.mode if best is not None and best.metric == metric else "auto"
    direction = mode if mode != "auto" else better(metric.removeprefix("val_"))
    if direction is None:
        raise NoAnswer(
            f"{metric} does not say whether lower or higher is better: set train.best to "
            "{metric: …, mode: min} or max."
        )
    return metric, direction == "max"
