"""The losses that a spec can name, one class per kind; all are computed in float32.

The outputs of a model are logits for classes and labels, and plain values for numbers.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ampspec.documents.base import Probability, SpecModel, from_name
from ampspec.references.package import EntryPointGroup, PackageReference

ClassWeights = Annotated[
    tuple[Annotated[float, Field(ge=0, le=1e6)], ...],
    Field(strict=False, min_length=2, max_length=100_000),
]
"""A factor for the loss of each class, in the order of the classes."""


class CrossEntropy(SpecModel):
    """Cross-entropy of one class per example or position.

    With `label_smoothing` s the target is 1 - s for the class plus s shared by all (Szegedy et al.
    2015, arXiv:1512.00567, section 7).
    """

    kind: Literal["cross_entropy"] = "cross_entropy"
    label_smoothing: Probability = 0.0
    class_weights: ClassWeights | None = None


class BinaryCrossEntropy(SpecModel):
    """Cross-entropy of independent labels that are 0 or 1.

    With `label_smoothing` s the targets are s / 2 and 1 - s / 2.
    """

    kind: Literal["binary_cross_entropy"] = "binary_cross_entropy"
    label_smoothing: Probability = 0.0
    positive_weight: float = Field(default=1.0, gt=0, le=1e6)
    """Multiplies the loss of labels that are 1."""


class Focal(SpecModel):
    """Cross-entropy times (1 - p)^`gamma`, for rare classes (Lin et al. 2017, arXiv:1708.02002).

    For classes and for labels that are 0 or 1.
    """

    kind: Literal["focal"] = "focal"
    gamma: float = Field(default=2.0, ge=0, le=100)
    class_weights: ClassWeights | None = None
    """For classes; the paper's alpha."""


class Dice(SpecModel):
    """1 - the mean Dice coefficient of the classes in a batch (Milletari et al. 2016, V-Net).

    `cross_entropy` is the factor of a cross-entropy that is added, which makes gradients smoother.
    """

    kind: Literal["dice"] = "dice"
    smooth: float = Field(default=1.0, gt=0, le=1e6)
    cross_entropy: float = Field(default=0.0, ge=0, le=1e6)


class MeanSquaredError(SpecModel):
    """The mean of squared differences."""

    kind: Literal["mse"] = "mse"


class MeanAbsoluteError(SpecModel):
    """The mean of absolute differences."""

    kind: Literal["mae"] = "mae"


class Huber(SpecModel):
    """Half the squared difference up to `delta`, linear beyond (Huber 1964)."""

    kind: Literal["huber"] = "huber"
    delta: float = Field(default=1.0, gt=0, le=1e6)


class PackageLoss(PackageReference):
    """A loss of a Python package that the operator has installed on workers."""

    group: ClassVar[EntryPointGroup] = "ampcore.losses"
    section: ClassVar[str] = "task.loss"
    kind: Literal["package"] = "package"


LossSpec = Annotated[
    Annotated[
        CrossEntropy
        | BinaryCrossEntropy
        | Focal
        | Dice
        | MeanSquaredError
        | MeanAbsoluteError
        | Huber
        | PackageLoss,
        Field(discriminator="kind"),
    ],
    BeforeValidator(from_name),
]
"""A loss: its kind alone, or with its options."""
