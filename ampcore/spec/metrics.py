"""The metrics that a spec can name, one class per kind; all accumulate in float32."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ampcore.spec.base import SpecModel
from ampcore.spec.losses import from_name

Average = Literal["macro", "micro"]
"""macro: the mean over the classes that occur; micro: over all examples together."""


class Accuracy(SpecModel):
    """The share of correct classes or labels."""

    kind: Literal["accuracy"] = "accuracy"


class TopK(SpecModel):
    """The share of examples whose class is among the `k` most probable ones."""

    kind: Literal["top_k"] = "top_k"
    k: int = Field(default=5, ge=1, le=100_000)


class PrecisionMetric(SpecModel):
    """Of the examples predicted as a class, the share that belongs to it."""

    kind: Literal["precision"] = "precision"
    average: Average = "macro"


class RecallMetric(SpecModel):
    """Of the examples of a class, the share that is predicted as it."""

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
        | Perplexity,
        Field(discriminator="kind"),
    ],
    BeforeValidator(from_name),
]
"""A metric: its kind alone, or with its options."""
Metrics = Annotated[tuple[MetricSpec, ...], Field(strict=False, max_length=32)]
