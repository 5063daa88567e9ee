"""The kinds of data that a job can train on, one class each."""

from typing import Annotated, Literal

from pydantic import Field

from ampcore.spec.base import Probability, SpecModel, Units
from ampcore.spec.dataset_reference import DatasetReference


class Data(SpecModel):
    """The fields that all kinds of data have in common."""

    batch_size: int = Field(default=128, ge=1, le=1_048_576)
    validation_split: Probability = 0.2
    """The share of examples for validation, taken from the end as in Keras."""
    shuffle: bool = True


class Digits(Data):
    """1,797 handwritten digits of 8 × 8 pixels, included in ampcore."""

    kind: Literal["digits"] = "digits"


class Synthetic(Data):
    """Noisy class prototypes drawn from the job's seed: learnable, of any shape and size."""

    kind: Literal["synthetic"] = "synthetic"
    shape: Annotated[tuple[Units, ...], Field(strict=False, min_length=1, max_length=4)] = (
        28,
        28,
        1,
    )
    classes: int = Field(default=10, ge=2, le=100_000)
    examples: int = Field(default=10_000, ge=1, le=100_000_000)


class FileData(Data):
    """The kinds of data that are read from a file: `path` or `dataset` names it."""

    path: str = Field(default="", max_length=1024, exclude_if=lambda path: not path)
    """A file in the workers' folder of data sets. Empty: `dataset` names the data."""
    dataset: DatasetReference | None = Field(
        default=None, exclude_if=lambda dataset: dataset is None
    )
    """An uploaded dataset: `birds` for its newest version, or `birds@3`. Null: `path` names it."""


class Npz(FileData):
    """A NumPy archive in the layout of Keras's mnist.npz: x_train, y_train, x_test, y_test.

    With `validation_split` 0 the file's own x_test and y_test are the validation data.
    """

    kind: Literal["npz"] = "npz"
    validation_split: Probability = 0.0


class Text(FileData):
    """A UTF-8 text file in windows of `sequence` characters; labels are the next characters."""

    kind: Literal["text"] = "text"
    sequence: int = Field(default=128, ge=1, le=65_536)


class SyntheticClicks(Data):
    """Random clicks: `slots` × `nnz` keys out of `vocabulary`, with learnable labels 0 and 1."""

    kind: Literal["synthetic_clicks"] = "synthetic_clicks"
    slots: Units = 10
    nnz: Units = 5
    vocabulary: int = Field(default=1024, ge=1, le=2**31 - 1)
    examples: int = Field(default=10_000, ge=1, le=100_000_000)


DataSpec = Annotated[Digits | Synthetic | Npz | Text | SyntheticClicks, Field(discriminator="kind")]
