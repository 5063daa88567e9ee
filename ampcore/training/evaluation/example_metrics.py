"""The metrics of each validation example, and those of a constant prediction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch, Dataset, Examples
from ampcore.data.batches import BatchSource
from ampcore.data.examples import consecutive
from ampcore.models.task import Task
from ampcore.training.evaluation.report.outputs import reported_outputs
from ampcore.training.evaluation.report.report import ReportBuilder, as_arrays

MAX_TARGETS: Final = 50_000_000
"""Of more numbers the constant prediction is not computed."""
ACCURACIES: Final = (
    "accuracy",
    "acc",
    "binary_accuracy",
    "categorical_accuracy",
    "sparse_categorical_accuracy",
)
SQUARED_ERRORS: Final = ("mse", "mean_squared_error")

Array = NDArray[Any]


@dataclass(frozen=True)
class ExampleMetrics:
    """The metrics of a task on all validation examples.

    Attributes:
        rows: Where each example is in its data, from 0, (n,).
        values: By name, the value of each example, (n,).
        constant: By name, the metric of the best constant prediction: the largest class, the class
            shares, or the mean. Only of metrics where it is known.
    """

    rows: Array
    values: Mapping[str, Array]
    constant: Mapping[str, float] = field(default_factory=dict)
    report: Mapping[str, Any] | None = None
    """What the model gets right and wrong; None if it was not asked for, or compares nothing."""


def example_metrics(
    task: Task, dataset: Dataset, batch_size: int, *, with_report: bool = False
) -> ExampleMetrics | None:
    """Evaluate each validation example with the weights that the task has now.

    None without validation examples that have rows, as those of streams.
    """
    examples = dataset.validation
    if examples is None or isinstance(examples, BatchSource) or not len(examples):
        return None
    weights = task.weights()
    outputs = reported_outputs(task, dataset) if with_report else {}
    builder = ReportBuilder(outputs, task.output_names()) if outputs else None
    function = _traced(task, weights, examples.spec, builder)
    parts_by_metric: dict[str, list[Array]] = {}
    targets: list[Array] = []
    for batch in consecutive(examples, batch_size):
        metrics, reduced = function(weights, batch.map(tf.convert_to_tensor))
        for name, values in metrics.items():
            parts_by_metric.setdefault(name, []).append(values.numpy())
        targets += _targets(batch, examples)
        if builder is not None:
            builder.add(batch, as_arrays(reduced))
    rows = dataset.validation_rows
    values = {name: np.concatenate(parts) for name, parts in parts_by_metric.items()}

    def evaluate(batch: Batch) -> Any:
        return as_arrays(function(weights, batch.map(tf.convert_to_tensor))[1])

    return ExampleMetrics(
        rows=np.arange(len(examples)) if rows is None else rows,
        values=values,
        constant=_constant_metrics(task, np.concatenate(targets)) if targets else {},
        report=None if builder is None else builder.to_json(dataset, values.get("loss"), evaluate),
    )


def _traced(task: Task, weights: Any, spec: Batch, builder: ReportBuilder | None) -> Any:
    """The metrics of a batch, and what the report keeps of its outputs.

    Traced once: the last batch is shorter than the others.
    """

    def metrics(weights: Any, batch: Batch) -> Any:
        values, outputs = task.evaluate_examples(weights, task.non_trainable(), batch)
        return values, {} if builder is None else builder.reduce(outputs)

    batch = spec.map(lambda part: tf.TensorSpec([None, *part.shape], part.dtype))
    return tf.function(metrics, autograph=False).get_concrete_function(weights, batch)


def _targets(batch: Batch, examples: Examples) -> list[Array]:
    """The targets of a task with one output, if they are not too many."""
    y = batch.y
    if isinstance(y, dict | list | tuple) or isinstance(batch.sample_weight, np.ndarray):
        return []
    return [np.asarray(y)] if np.size(y) / len(y) * len(examples) <= MAX_TARGETS else []


def _constant_metrics(task: Task, y: Array) -> dict[str, float]:
    """The metrics of the best constant prediction for these targets."""
    loss, classes = task.loss_kind(), _classes(y)
    constant: dict[str, float] = {}
    if classes is not None:
        _, counts = np.unique(classes, return_counts=True)
        shares = counts / counts.sum()
        accuracies = [name for name in ACCURACIES if name in task.metrics]
        constant |= dict.fromkeys(accuracies, float(shares.max()))
        if loss == "cross_entropy":
            constant["loss"] = float(-(shares * np.log(shares)).sum())
    elif y.dtype.kind == "f":
        variance = float(np.var(y, axis=0, dtype=np.float64).mean())
        names = [name for name in SQUARED_ERRORS if name in task.metrics]
        constant |= dict.fromkeys([*names, *(["loss"] if loss == "squared" else [])], variance)
    return constant


def _classes(y: Array) -> Array | None:
    """The class of each target, also of one-hot ones, and of zeros and ones; None of others."""
    if y.dtype.kind in "iub":
        return y
    if not np.isin(y, (0.0, 1.0)).all():
        return None
    if y.ndim == 1 or y.shape[1:] == (1,):
        return y
    is_one_hot = y.ndim == 2 and (y.sum(axis=1) == 1.0).all()
    return y.argmax(axis=1) if is_one_hot else None
