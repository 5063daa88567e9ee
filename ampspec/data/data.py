"""The kinds of data that a job can train on, one class each."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ampspec.data.file_formats import (
    MAX_COLUMNS,
    ColumnName,
    CsvOptions,
    ImagesOptions,
    NpyOptions,
    NpzOptions,
    ParquetOptions,
    TfrecordOptions,
)
from ampspec.data.preprocessing import AnyAugmentation, Preprocessing
from ampspec.documents.base import Probability, SpecModel, Units
from ampspec.references.dataset_reference import DatasetReference
from ampspec.references.package import EntryPointGroup, PackageReference


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


ColumnNames = Annotated[
    tuple[ColumnName, ...],
    Field(strict=False, min_length=1, max_length=MAX_COLUMNS),
    BeforeValidator(_as_list),
]
"""One or several column names."""


def _as_one_input(value: Any) -> Any:
    """`inputs: image` is short for `inputs: {image: image}`."""
    names = _as_list(value)
    if isinstance(names, list | tuple):
        return {names[0] if len(names) == 1 and isinstance(names[0], str) else "features": names}
    return value


InputColumns = Annotated[
    dict[ColumnName, ColumnNames], Field(max_length=64), BeforeValidator(_as_one_input)
]
"""The columns of each input; a single input may omit its name."""


class Data(SpecModel):
    """The fields that all kinds of data have in common."""

    batch_size: int = Field(default=128, ge=1, le=1_048_576)
    shuffle: bool = True


class SplitData(Data):
    """The kinds of data without a validation split of their own."""

    validation_split: Probability = 0.2
    """The share of examples for validation, taken from the end as in Keras."""


SplitSeed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class Digits(SplitData):
    """1,797 handwritten digits of 8 × 8 pixels, included in ampcore."""

    kind: Literal["digits"] = "digits"


class Synthetic(SplitData):
    """Noisy class prototypes drawn at random: learnable, of any shape and size."""

    kind: Literal["synthetic"] = "synthetic"
    split_seed: SplitSeed = 0
    """Seed of the generated examples and of the validation split. Jobs with the same value have the
    same data, regardless of `train.seed`."""
    shape: Annotated[tuple[Units, ...], Field(strict=False, min_length=1, max_length=4)] = (
        28,
        28,
        1,
    )
    classes: int = Field(default=10, ge=2, le=100_000)
    examples: int = Field(default=10_000, ge=1, le=100_000_000)


class FileData(Data):
    """The kinds of data that are read from a file: `path` or `dataset` names it."""

    path: Annotated[str | None, BeforeValidator(_none_if_empty)] = Field(
        default=None, max_length=1024, exclude_if=lambda path: path is None
    )
    """A file in the workers' folder of data sets, or the URL of an object below a prefix that the
    server allows: `s3://bucket/birds.npz`. Null: `dataset` names the data."""
    dataset: DatasetReference | None = Field(
        default=None, exclude_if=lambda dataset: dataset is None
    )
    """An uploaded dataset: `birds` for its newest version, or `birds@3`. Null: `path` names it."""

    @property
    def file_reference(self) -> str:
        """The path or dataset that names the file."""
        return self.path or self.dataset or ""


MissingTargets = Literal["error", "leave_out"]


class Columns(Data):
    """The kinds of data whose columns can be inputs and targets."""

    validation_split: Probability | None = None
    """The share of examples for validation. Null or 0: the validation or test split of the data;
    if it has none, null means 0.2."""
    validation_rows: Literal["last", "random"] = "random"
    """Which examples are for validation: the last ones, or random ones selected by `split_seed`."""
    split_seed: SplitSeed = 0
    """Seed of random validation rows. Jobs with the same value are evaluated on the same rows,
    regardless of `train.seed`. A dataset of a package is built with it."""
    inputs: InputColumns | None = None
    """The columns of each input of the model, or of its only input; null: `x` or `image`, and in
    tables all columns that are not targets. Of several inputs, those that are not named have the
    columns of their own names."""
    target: ColumnNames | None = None
    """The column to predict, or several numbers or labels; null: `y`, `label` or `mask`."""
    targets: dict[ColumnName, ColumnNames] | None = Field(default=None, max_length=64)
    """For a task with several outputs, the columns of each."""
    missing_targets: MissingTargets = Field(
        default="error", exclude_if=lambda missing_targets: missing_targets == "error"
    )
    """`error`: a row without a target is an error. `leave_out`: such rows are neither trained on
    nor evaluated. Of several targets or outputs, a row needs all."""
    preprocessing: dict[ColumnName, Preprocessing] = Field(
        default_factory=dict, max_length=MAX_COLUMNS
    )
    """By input column, the layers in front of the model; `*` stands for all other columns."""
    augmentation: Annotated[tuple[AnyAugmentation, ...], Field(strict=False, max_length=16)] = ()
    """Layers that augment the training images at random, in this order."""


class ColumnData(Columns, FileData):
    """The kinds of files whose columns can be inputs and targets."""


class Npz(ColumnData, NpzOptions):
    """A NumPy archive; `x_train` and `x_test` are training and validation examples of `x`."""

    kind: Literal["npz"] = "npz"
    validation_split: Probability | None = 0.0
    validation_rows: Literal["last", "random"] = "last"


class Npy(ColumnData, NpyOptions):
    """One NumPy array, the column `x`, for autoencoding."""

    kind: Literal["npy"] = "npy"
    validation_rows: Literal["last", "random"] = "last"


class Csv(ColumnData, CsvOptions):
    """A table as text, with one row per line (RFC 4180, UTF-8)."""

    kind: Literal["csv"] = "csv"


class Parquet(ColumnData, ParquetOptions):
    """A table in a Parquet file, which may have images."""

    kind: Literal["parquet"] = "parquet"


class Images(ColumnData, ImagesOptions):
    """PNG and JPEG files in a folder or .zip: a folder for each class, or `images` and `masks`."""

    kind: Literal["images"] = "images"


class Tfrecord(ColumnData, TfrecordOptions):
    """TFRecord files of tf.train.Example."""

    kind: Literal["tfrecord"] = "tfrecord"


class Text(FileData, SplitData):
    """A UTF-8 text file in windows of `sequence` characters; labels are the next characters."""

    kind: Literal["text"] = "text"
    sequence: int = Field(default=128, ge=1, le=65_536)


class SyntheticClicks(SplitData):
    """Random clicks: `slots` × `nnz` keys out of `vocabulary`, with learnable labels 0 and 1."""

    kind: Literal["synthetic_clicks"] = "synthetic_clicks"
    split_seed: SplitSeed = 0
    """Draws the examples, as for `synthetic`."""
    slots: Units = 10
    nnz: Units = 5
    vocabulary: int = Field(default=1024, ge=1, le=2**31 - 1)
    examples: int = Field(default=10_000, ge=1, le=100_000_000)


class PackageData(Columns, PackageReference):
    """A dataset of a Python package that the operator has installed on workers."""

    group: ClassVar[EntryPointGroup] = "ampcore.datasets"
    section: ClassVar[str] = "data"
    kind: Literal["package"] = "package"
    validation_rows: Literal["last", "random"] = "last"


AnyFile = Npz | Npy | Csv | Parquet | Images | Tfrecord
"""The kinds of files whose columns can be inputs and targets."""

DataSpec = Annotated[
    Digits
    | Synthetic
    | SyntheticClicks
    | Npz
    | Npy
    | Csv
    | Parquet
    | Images
    | Tfrecord
    | Text
    | PackageData,
    Field(discriminator="kind"),
]
