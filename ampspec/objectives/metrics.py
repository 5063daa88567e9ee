"""The metrics that a spec can name, one class per kind; all accumulate in float32."""

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from ampspec.documents.base import SpecModel, from_name
from ampspec.references.package import EntryPointGroup, PackageReference

Average = Literal["macro", "micro"]
"""macro: the mean over the classes that occur; micro: over all examples together, and
the name of the metric ends in `_micro`."""


class Accuracy(SpecModel):
    """The share of correct classes or labels."""

    kind: Literal["accuracy"] = "accuracy"


class TopK(SpecModel):
    """The share of examples whose class is among the `k` most probable ones."""

    kind: Literal["top_k"] = "top_k"
    k: int = Field(default=5, ge=1, le=100_000)


class PrecisionMetric(SpecModel):
    """The share of correct predictions among the examples predicted as a class."""

    kind: Literal["precision"] = "precision"
    average: Average = "macro"


class RecallMetric(SpecModel):
    """The share of the examples of a class that are predicted as this class."""

    kind: Literal["recall"] = "recall"
    average: Average = "macro"


class F1(SpecModel):
    """The harmonic mean of precision and recall."""

    kind: Literal["f1"] = "f1"
    average: Average = "macro"


class Iou(SpecModel):
    """Intersection over union of predicted and true positions, the mean over the classes."""

    kind: Literal["iou"] = "iou"
    average: Average = "macro"


class Auc(SpecModel):
    """The area under the ROC curve, in 200 thresholds; of several classes, the mean one-vs-rest."""

    kind: Literal["auc"] = "auc"


class MeanAbsoluteErrorMetric(SpecModel):
    """The mean absolute difference."""

    kind: Literal["mae"] = "mae"


class MeanSquaredErrorMetric(SpecModel):
    """The mean squared difference."""

    kind: Literal["mse"] = "mse"


class RootMeanSquaredError(SpecModel):
    """The square root of the mean squared difference."""

    kind: Literal["rmse"] = "rmse"


class Perplexity(SpecModel):
    """The exponential of the mean cross-entropy of a class."""

    kind: Literal["perplexity"] = "perplexity"


class PackageMetric(PackageReference):
    """A metric of a Python package that the operator has installed on workers.

    Evaluations report it under the name of the entry point.
    """

    group: ClassVar[EntryPointGroup] = "ampcore.metrics"
    section: ClassVar[str] = "task.metrics"
    kind: Literal["package"] = "package"


MetricSpec = Annotated[
    Annotated[
        Accuracy
        | TopK
        | PrecisionMetric
        | RecallMetric
        | F1
        | Iou
        | Auc
        | MeanAbsoluteErrorMetric
        | MeanSquaredErrorMetric
        | RootMeanSquaredError
        | Perplexity
        | PackageMetric,
        Field(discriminator="kind"),
    ],
    BeforeValidator(from_name),
]
"""A metric: its kind alone, or with its options."""

_HIGHER_IS_BETTER: Final = frozenset({"accuracy", "acc", "precision", "recall", "f1", "iou", "auc"})
_LOWER_IS_BETTER: Final = frozenset({"loss", "mae", "mse", "rmse", "perplexity"})
MICRO: Final = "_micro"
"""The suffix of metrics with a micro average."""
_TOP_K: Final = re.compile(r"(?:^|_)top_\d+$")


def metric_name(metric: MetricSpec) -> str:
    """The name of a metric in evaluations, without `val_`."""
    if isinstance(metric, TopK):
        return f"top_{metric.k}"
    if isinstance(metric, PackageMetric):
        return metric.name
    is_micro = getattr(metric, "average", "macro") == "micro"
    return f"{metric.kind}{MICRO}" if is_micro else metric.kind


def better(name: str) -> Literal["min", "max"] | None:
    """Whether lower or higher values of a metric are better; None for unknown names.

    The metric of one of several outputs is named `OUTPUT_METRIC`, the loss of a network
    `loss/NETWORK`.
    """
    whole = name.partition("/")[0].removesuffix(MICRO)
    kinds = {whole.rpartition("_")[2], name.removeprefix("val_")}
    if kinds & _LOWER_IS_BETTER:
        return "min"
    return "max" if kinds & _HIGHER_IS_BETTER or _TOP_K.search(name) else None


def is_share(metric: str) -> bool:
    """Whether a metric is a share from 0 to 1; all metrics with direction max are."""
    return better(metric.removeprefix("val_")) == "max"


Metrics = Annotated[tuple[MetricSpec, ...], Field(strict=False, max_length=32)]
