"""The tasks that a model can be trained for, one class per kind."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, TypeAdapter

from ampspec.documents.base import SpecModel
from ampspec.objectives.losses import LossSpec
from ampspec.objectives.metrics import Metrics, MetricSpec

TargetKind = Literal["class", "labels", "numbers", "input"]
"""The kind of a target: one class for each example or position, labels that are 0 or 1, numbers, or
the input itself."""

LOSSES: Final[dict[TargetKind, tuple[str, ...]]] = {
    "class": ("cross_entropy", "focal", "dice", "package"),
    "labels": ("binary_cross_entropy", "focal", "dice", "package"),
    "numbers": ("mse", "mae", "huber", "package"),
    "input": ("mse", "mae", "huber", "binary_cross_entropy", "package"),
}
"""The losses of each kind of target; the first is the default."""

METRICS: Final[dict[TargetKind, tuple[str, ...]]] = {
    "class": (
        *("accuracy", "top_k", "precision", "recall", "f1", "iou", "auc", "perplexity"),
        "package",
    ),
    "labels": ("accuracy", "precision", "recall", "f1", "iou", "auc", "package"),
    "numbers": ("mae", "mse", "rmse", "package"),
    "input": ("mae", "mse", "rmse", "package"),
}


class OneOutput(SpecModel):
    """The loss and the metrics of one output."""

    target: ClassVar[TargetKind]
    default_metrics: ClassVar[tuple[str, ...]] = ()

    loss: LossSpec | None = None
    """null: the default of the kind."""
    metrics: Metrics | None = None
    """null: the default of the kind."""


class Classification(OneOutput):
    """One class for each example, or for each position of a sequence.

    Labels are whole numbers, one-hot rows or names; names and numbers other than 0, 1, 2, … are
    kept with the model.
    """

    target: ClassVar[TargetKind] = "class"
    default_metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    kind: Literal["classification"] = "classification"


class MultiLabel(OneOutput):
    """Any number of labels for each example: rows of 0 and 1."""

    target: ClassVar[TargetKind] = "labels"
    default_metrics: ClassVar[tuple[str, ...]] = ("accuracy", "f1")
    kind: Literal["multi_label"] = "multi_label"


class Regression(OneOutput):
    """One or more numbers for each example."""

    target: ClassVar[TargetKind] = "numbers"
    default_metrics: ClassVar[tuple[str, ...]] = ("mae", "rmse")
    kind: Literal["regression"] = "regression"


class Segmentation(OneOutput):
    """One class for each pixel: the model's output is (height, width, classes)."""

    target: ClassVar[TargetKind] = "class"
    default_metrics: ClassVar[tuple[str, ...]] = ("accuracy", "iou")
    kind: Literal["segmentation"] = "segmentation"


class LanguageModel(OneOutput):
    """The next token at each position of a text."""

    target: ClassVar[TargetKind] = "class"
    default_metrics: ClassVar[tuple[str, ...]] = ("accuracy", "perplexity")
    kind: Literal["language_model"] = "language_model"


class Autoencoding(OneOutput):
    """The input itself; the data needs no labels."""

    target: ClassVar[TargetKind] = "input"
    default_metrics: ClassVar[tuple[str, ...]] = ("rmse",)
    kind: Literal["autoencoding"] = "autoencoding"


def loss_of(task: OneOutput) -> Any:
    """The loss of a task, or the default of its kind."""
    if task.loss is not None:
        return task.loss
    return _LOSS.validate_python(LOSSES[task.target][0])


def metrics_of(task: OneOutput) -> tuple[Any, ...]:
    """The metrics of a task, or the defaults of its kind."""
    if task.metrics is not None:
        return task.metrics
    return tuple(map(_METRIC.validate_python, task.default_metrics))


_LOSS: Final[TypeAdapter[Any]] = TypeAdapter(LossSpec)
_METRIC: Final[TypeAdapter[Any]] = TypeAdapter(MetricSpec)

SingleTask = Annotated[
    Classification | MultiLabel | Regression | Segmentation | LanguageModel | Autoencoding,
    Field(discriminator="kind"),
]


class Output(SpecModel):
    """The task of one output of a model with several outputs."""

    task: SingleTask
    target: str | None = Field(default=None, min_length=1, max_length=200)
    """The target in the data; null: the target with the name of the output."""
    weight: float = Field(default=1.0, ge=0, le=1e6)
    """The factor of its loss in the total loss."""


class Outputs(SpecModel):
    """Several outputs of one model, each with its own loss and metrics."""

    kind: Literal["outputs"] = "outputs"
    outputs: dict[str, Output] = Field(min_length=1, max_length=64)
    """By the name of the output layer."""


TaskSpec = Annotated[
    Classification
    | MultiLabel
    | Regression
    | Segmentation
    | LanguageModel
    | Autoencoding
    | Outputs,
    Field(discriminator="kind"),
]


def tasks_by_pointer(task: TaskSpec | None) -> dict[str, SingleTask]:
    """The task of each output, by its JSON pointer in the spec."""
    if isinstance(task, Outputs):
        return {f"/task/outputs/{name}/task": output.task for name, output in task.outputs.items()}
    return {"/task": task} if task is not None else {}
