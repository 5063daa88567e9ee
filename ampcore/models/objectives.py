"""The losses and metrics that a spec's task names, for the outputs of a model."""

from typing import Any, Final

from ampcore.data.dataset import Signature
from ampcore.data.targets import OUTPUT
from ampcore.errors import InvalidModel
from ampcore.losses import build_loss
from ampcore.metrics import build_metric
from ampcore.models.supervised import Objective
from ampcore.spec.losses import CrossEntropy, Focal, LossSpec
from ampcore.spec.task import (
    Autoencoding,
    Classification,
    MultiLabel,
    OneOutput,
    Outputs,
    Regression,
    Segmentation,
    TargetKind,
    TaskSpec,
    loss_of,
    metrics_of,
)

DEFAULT_TASKS: Final[dict[TargetKind, TaskSpec]] = {
    "class": Classification(),
    "labels": MultiLabel(),
    "numbers": Regression(),
    "input": Autoencoding(),
}


def default_task(signature: Signature) -> TaskSpec:
    """The task for the targets of the data, where a spec names none."""
    [target] = signature.targets.values()
    if target.kind == "class" and len(target.shape) > 1:
        return Segmentation()
    return DEFAULT_TASKS[target.kind]


def objectives(task: TaskSpec, model: Any, signature: Signature) -> dict[str, Objective]:
    """The objective of each output of the model, by its name.

    Raises:
        InvalidModel: The task does not fit the model or the data.
    """
    if isinstance(task, Outputs):
        return {
            name: _objective(task.outputs[name].task, signature.targets[name].size, weight=weight)
            for name, weight in _weights(task, model).items()
        }
    encoding = signature.targets[OUTPUT]
    if task.target != encoding.kind:
        raise InvalidModel(
            "task.kind",
            expected=f"a task for targets of the kind {encoding.kind}, as the data has",
            received=task.kind,
        )
    return {OUTPUT: _objective(task, encoding.size)}


def _weights(task: Outputs, model: Any) -> dict[str, float]:
    """The weight of each output, in the order in which the model returns them."""
    outputs = model.output
    names = list(outputs) if isinstance(outputs, dict) else list(model.output_names)
    if set(names) != set(task.outputs):
        raise InvalidModel(
            "task.outputs",
            expected=f"the outputs of the model: {', '.join(names)}",
            received=", ".join(task.outputs),
        )
    return {name: task.outputs[name].weight for name in names}


def _objective(task: OneOutput, size: int, *, weight: float = 1.0) -> Objective:
    loss, has_classes = loss_of(task), task.target == "class"
    _check_class_weights(loss, size)
    return Objective(
        build_loss(loss, has_classes=has_classes),
        weight,
        metrics=tuple(
            build_metric(metric, size, has_classes=has_classes) for metric in metrics_of(task)
        ),
    )


def _check_class_weights(loss: LossSpec, classes: int) -> None:
    weights = loss.class_weights if isinstance(loss, CrossEntropy | Focal) else None
    if weights is not None and len(weights) != classes:
        raise InvalidModel(
            "task.loss.class_weights",
            expected=f"{classes} weights, one for each class",
            received=str(len(weights)),
        )
