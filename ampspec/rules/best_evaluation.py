"""Checks the metric of `train.best`: that evaluations exist and report it."""

from collections.abc import Collection, Iterator
from typing import Any, Final

from ampspec.data.data import Digits, SplitData, Synthetic
from ampspec.documents.problems import Problem, closest_match
from ampspec.models.model import Layers
from ampspec.objectives.metrics import better, metric_name
from ampspec.objectives.task import Classification, OneOutput, Outputs, metrics_of

PREFIX: Final = "val_"

_CLASSIFIERS: Final = (
    *("mlp", "cnn", "lenet5", "resnet", "keras_application"),
    *("embedding", "lstm_lm", "transformer_lm"),
)
OWN_METRICS: Final[dict[str, tuple[str, ...]]] = {
    "gan": ("loss", "loss/generator", "loss/discriminator", "accuracy"),
    **dict.fromkeys(_CLASSIFIERS, ("loss", "accuracy")),
}
"""The metrics of each kind of model without a task in the spec."""


def best_evaluation_exists(parts: dict[str, Any]) -> Iterator[Problem]:
    """The job reports the metric that selects the best evaluation."""
    train, data = parts.get("train"), parts.get("data")
    if train is None or train.best_by is None:
        return
    if isinstance(data, SplitData) and data.validation_split == 0.0:
        yield Problem(
            "/data/validation_split",
            "no_validation_data",
            "a share above 0, since train.early_stopping, train.keep and train.best need "
            "validation data",
            "0",
        )
    names = reported_metrics(parts)
    yield from metric_problems(train.best_by.metric, train.best_by.mode, names)


def metric_problems(metric: str, mode: str, names: Collection[str] | None) -> Iterator[Problem]:
    """The problems of `train.best`, given the metrics that evaluations report, if known."""
    if names is not None and metric not in names:
        yield Problem(
            "/train/best/metric",
            "unknown_metric",
            f"a metric that this job reports: {', '.join(names)}",
            metric,
            closest_match(metric, names),
        )
    elif names is not None and mode == "auto" and better(metric.removeprefix(PREFIX)) is None:
        expected = f"min or max, since {metric} does not say whether lower or higher is better"
        yield Problem("/train/best/mode", "unknown_direction", expected, "auto")


def reported_metrics(parts: dict[str, Any]) -> tuple[str, ...] | None:
    """The metrics of the job's evaluations; None if they depend on its data."""
    model, data, task = parts.get("model"), parts.get("data"), parts.get("task")
    if isinstance(task, Outputs):
        several = len(task.outputs) > 1
        names = ["loss"]
        for name, output in task.outputs.items():
            of_output = _names(output.task)
            names += [f"{name}_{metric}" for metric in of_output] if several else of_output[1:]
    elif isinstance(task, OneOutput):
        names = _names(task)
    elif model is not None and model.kind in OWN_METRICS:
        names = list(OWN_METRICS[model.kind])
    elif isinstance(model, Layers) and isinstance(data, Digits | Synthetic):
        names = _names(Classification())
    else:
        return None
    return tuple(f"{PREFIX}{name}" for name in dict.fromkeys(names))


def _names(task: OneOutput) -> list[str]:
    return ["loss", *(metric_name(metric) for metric in metrics_of(task))]
