"""Rules about the task of a spec: the models, data, losses and metrics that it fits."""

from collections.abc import Iterator
from typing import Final

from ampspec.documents.problems import Parts, Problem
from ampspec.objectives.metrics import metric_name
from ampspec.objectives.task import LOSSES, METRICS, tasks_by_pointer

ALL_TASKS: Final = (
    *("classification", "multi_label", "regression", "segmentation"),
    *("language_model", "autoencoding", "outputs"),
)
TASKS_OF_MODEL: Final[dict[str, tuple[str, ...]]] = {
    "mlp": ("classification", "multi_label", "regression", "autoencoding"),
    "cnn": ("classification", "multi_label", "regression"),
    "lenet5": ("classification", "multi_label", "regression"),
    "resnet": ("classification", "multi_label", "regression"),
    "keras_application": ("classification", "multi_label", "regression"),
    "lstm_lm": ("language_model",),
    "transformer_lm": ("language_model",),
    "layers": ALL_TASKS,
    "bundle": ALL_TASKS,
    "package": ALL_TASKS,
}
"""The tasks of each kind of model; a kind that is not listed has a fixed task."""


def task_fits_model(parts: Parts) -> Iterator[Problem]:
    """Each kind of model has outputs for certain tasks."""
    model, task = parts.get("model"), parts.get("task")
    if model is None or task is None:
        return
    allowed = TASKS_OF_MODEL.get(model.kind, ())
    if task.kind not in allowed:
        expected = (
            f"{' or '.join(allowed)} for the model {model.kind}"
            if allowed
            else f"no task, since the task of the model {model.kind} is fixed"
        )
        yield Problem("/task/kind", "model_cannot_do_task", expected, task.kind)


CLASS_DATA: Final = ("digits", "synthetic", "synthetic_clicks", "text")
"""The kinds of data with one target, which is a class."""
CLASS_TASKS: Final = ("classification", "segmentation", "language_model")


def task_fits_data(parts: Parts) -> Iterator[Problem]:
    """Data without columns has classes to predict, and nothing else."""
    data, task = parts.get("data"), parts.get("task")
    if data is None or task is None or data.kind not in CLASS_DATA or task.kind in CLASS_TASKS:
        return
    yield Problem(
        "/task/kind",
        "task_does_not_fit_data",
        f"{' or '.join(CLASS_TASKS)} for {data.kind}, whose targets are classes",
        task.kind,
    )


def losses_and_metrics_fit_task(parts: Parts) -> Iterator[Problem]:
    """Losses and metrics are for certain kinds of targets."""
    for pointer, task in tasks_by_pointer(parts.get("task")).items():
        losses, metrics = LOSSES[task.target], METRICS[task.target]
        if task.loss is not None and task.loss.kind not in losses:
            yield Problem(
                f"{pointer}/loss",
                "loss_does_not_fit_task",
                f"{' or '.join(losses)} for the task {task.kind}",
                task.loss.kind,
            )
        for index, metric in enumerate(task.metrics or ()):
            if metric.kind not in metrics:
                yield Problem(
                    f"{pointer}/metrics/{index}",
                    "metric_does_not_fit_task",
                    f"{' or '.join(metrics)} for the task {task.kind}",
                    metric.kind,
                )


def metrics_have_names(parts: Parts) -> Iterator[Problem]:
    """The metrics of an output have distinct names, different from `loss`."""
    for pointer, task in tasks_by_pointer(parts.get("task")).items():
        names = ["loss"]
        for index, metric in enumerate(task.metrics or ()):
            name = metric_name(metric)
            if name in names:
                yield Problem(
                    f"{pointer}/metrics/{index}",
                    "metric_name_taken",
                    f"a metric with a different name than {', '.join(names)}",
                    name,
                )
            names.append(name)
