"""The losses and metrics that a spec's task names, for the outputs of a model."""

from typing import Any, Final

import tensorflow as tf

from ampcore.data.dataset import Signature
from ampcore.data.preparation.targets import Encoding
from ampcore.models.supervised import Objective
from ampcore.objectives import build_loss, build_metric, check_package_loss, check_package_metric
from ampspec.data.target_columns import OUTPUT
from ampspec.errors import InvalidModel
from ampspec.objectives.losses import CrossEntropy, Focal, LossSpec, PackageLoss
from ampspec.objectives.metrics import MetricSpec, PackageMetric
from ampspec.objectives.task import (
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

Traced = tuple[tf.TensorSpec, tf.TensorSpec]
"""The targets and the output of one example."""

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
    # A subclassed model does not know its output before it is called.
    outputs = getattr(model, "outputs", None) or [None]
    if isinstance(task, Outputs):
        return {
            name: _objective(task.outputs[name].task, signature.targets[name], output, weight)
            for (name, weight), output in zip(_weights(task, model).items(), outputs, strict=True)
        }
    encoding = signature.targets[OUTPUT]
    if task.target != encoding.kind:
        raise InvalidModel(
            "task.kind",
            expected=f"a task for targets of the kind {encoding.kind}, as the data has",
            received=task.kind,
        )
    return {OUTPUT: _objective(task, encoding, outputs[0])}


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


def _objective(
    task: OneOutput, encoding: Encoding, output: Any | None, weight: float = 1.0
) -> Objective:
    """The objective of an output, a symbolic tensor of Keras if it is known."""
    spec, has_classes = loss_of(task), task.target == "class"
    _check_class_weights(spec, encoding.size)
    loss = build_loss(spec, has_classes=has_classes)
    traced = _traced_with(encoding, output)
    if isinstance(spec, PackageLoss) and traced is not None:
        check_package_loss(spec, loss, *traced)
    return Objective(
        loss,
        weight,
        metrics=tuple(_metric(metric, encoding, traced) for metric in metrics_of(task)),
        reshape_targets=task.target == "input",
    )


def _metric(spec: MetricSpec, encoding: Encoding, traced: Traced | None) -> Any:
    metric = build_metric(spec, encoding.size, has_classes=encoding.kind == "class")
    if isinstance(spec, PackageMetric) and traced is not None:
        check_package_metric(spec, metric, *traced)
    return metric


def _traced_with(encoding: Encoding, output: Any | None) -> Traced | None:
    """What losses and metrics of packages are traced with; None if only the run will tell."""
    if encoding.kind != "input":
        return encoding.spec, tf.TensorSpec(encoding.output_shape, tf.float32)
    if output is None:
        return None
    # An autoencoder may return its input in another shape, which the targets get, too.
    predictions = tf.TensorSpec(output.shape[1:], tf.float32)
    return predictions, predictions


def _check_class_weights(loss: LossSpec, classes: int) -> None:
    weights = loss.class_weights if isinstance(loss, CrossEntropy | Focal) else None
    if weights is not None and len(weights) != classes:
        raise InvalidModel(
            "task.loss.class_weights",
            expected=f"{classes} weights, one for each class",
            received=str(len(weights)),
        )
