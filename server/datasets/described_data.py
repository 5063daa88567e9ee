"""Check the data section of a spec against the description of the dataset version that it names.

A job would find the same mistakes when it reads the file, after it has waited for a worker. What
depends on how the file is read is left to the job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ampcore.spec import JobSpec, Problem
from ampcore.spec.data import AnyFile, Csv, DataSpec, Images, Tfrecord
from ampcore.spec.data_rules import step_problems, train_examples, training_examples_text
from ampcore.spec.model import Bundle
from ampcore.spec.problems import closest_match, format_value, json_pointer
from ampcore.spec.run import micro_batches
from ampcore.spec.target_columns import target_columns
from ampcore.spec.task import Outputs
from ampcore.spec.text import first_names
from server.datasets.describe import FORMAT_OPTIONS
from store.datasets import DESCRIBED, INVALID
from store.tables import DatasetVersion

ANY_COLUMN: Final = "*"
MAX_CLOSEST: Final = 1000
TEXT_FORMATS: Final = ("csv", "text")
"""A description may take a file of one of them for the other."""
NAMES_OF_COLUMNS: Final = {
    "csv": ("encoding", "delimiter", "quote", "trim", "skip_lines", "header"),
    "npz": ("x", "y"),
    "tfrecord": ("raw",),
}
"""By format, the options that decide which columns there are."""


@dataclass(frozen=True)
class DescribedColumn:
    """A column as far as a valid description tells; descriptions are not trusted."""

    name: str
    is_image: bool
    has_any_size: bool
    missing: int

    @classmethod
    def of(cls, column: Mapping[str, Any]) -> "DescribedColumn":
        """The column of an entry of the description."""
        shape, missing = column.get("shape"), column.get("missing")
        return cls(
            str(column.get("name", "")),
            column.get("dtype") == "image",
            isinstance(shape, list) and None in shape[:2],
            missing if isinstance(missing, int) else 0,
        )


def problems_of_data(spec: JobSpec, version: DatasetVersion, reference: str) -> list[Problem]:
    """Where the spec does not fit the version; none if the version could not be described.

    Args:
        spec: It names the dataset.
        version: The version that the job would be trained on.
        reference: What the version is called: `birds@3`.
    """
    data = spec.data
    if not isinstance(data, AnyFile):
        return []
    if version.state == INVALID and not _says_how_to_read(data):
        expected = f"a dataset that can be read, or options of the format that {reference} needs"
        message = version.message or "one that cannot be read"
        return [Problem("/data/dataset", "invalid_dataset", expected, message)]
    if version.state != DESCRIBED:
        return []
    if version.kind != data.kind:
        if version.kind in TEXT_FORMATS and data.kind in TEXT_FORMATS:
            return []
        expected = f"{version.kind}, the format of {reference}"
        return [Problem("/data/kind", "wrong_format", expected, data.kind)]
    columns = [DescribedColumn.of(column) for column in version.columns or []]
    problems = [
        *_batch(spec, data, version.rows, reference),
        *_image_size(data, columns, reference),
    ]
    if _has_described_columns(data, version):
        problems += _missing_values(data, columns, reference)
        problems += _names(spec, data, [column.name for column in columns], reference)
    return problems


def options_of_version(data: DataSpec, version: DatasetVersion) -> dict[str, Any]:
    """The options of the format that the data section leaves to the file, as it was described."""
    if not isinstance(data, AnyFile) or version.kind != data.kind or version.options is None:
        return {}
    options = FORMAT_OPTIONS.validate_python(version.options)
    return {
        name: value
        for name, value in options
        if value is not None and getattr(data, name, value) is None
    }


def _says_how_to_read(data: AnyFile) -> bool:
    """Whether the data section sets an option that decides which columns there are."""
    defaults = type(data).model_fields
    return any(
        getattr(data, name) != defaults[name].get_default(call_default_factory=True)
        for name in NAMES_OF_COLUMNS.get(data.kind, ())
    )


def _has_described_columns(data: AnyFile, version: DatasetVersion) -> bool:
    """Whether a job reads the columns that were described: its options can say otherwise."""
    if version.options is None:  # described by an earlier release
        return not _says_how_to_read(data) and not isinstance(data, Tfrecord)
    values = data.model_dump(mode="json", include=set(NAMES_OF_COLUMNS.get(data.kind, ())))
    return all(version.options.get(name) == value for name, value in values.items())


def _batch(spec: JobSpec, data: AnyFile, rows: int | None, reference: str) -> Iterator[Problem]:
    """The rows fill a step; the function of a bundle may make any number of examples of them."""
    if rows is None or isinstance(spec.model, Bundle):
        return
    training = train_examples(rows, data.validation_split or 0.0)
    examples = training_examples_text(data, reference)
    yield from step_problems(data, micro_batches(spec), training, examples)


def _image_size(
    data: AnyFile, found: Sequence[DescribedColumn], reference: str
) -> Iterator[Problem]:
    differ = any(column.is_image and column.has_any_size for column in found)
    if isinstance(data, Images) and data.size is None and differ:
        expected = f"[height, width], since the images of {reference} have several sizes"
        yield Problem("/data/size", "size_needed", expected, "none")


def _missing_values(
    data: AnyFile, found: Sequence[DescribedColumn], reference: str
) -> Iterator[Problem]:
    if getattr(data, "missing", "keep") == "keep":
        return
    if isinstance(data, Csv) and data.missing_values is not None:
        return
    for column in found:
        if column.missing:
            expected = (
                f"keep, since the column {column.name} of {reference} has {column.missing} rows "
                "without a value"
            )
            yield Problem("/data/missing", "missing_values", expected, "error")
            return


def _names(
    spec: JobSpec, data: AnyFile, columns: Sequence[str], reference: str
) -> Iterator[Problem]:
    """Named columns exist, and there is one for each target."""
    targets = target_columns(data, spec.task, columns)
    named: dict[tuple[str, ...], Sequence[str]] = {
        _path_of_target(spec, data, output): group for output, group in targets.items()
    }
    named |= {("data", "inputs", name): group for name, group in (data.inputs or {}).items()}
    named |= {
        ("data", "preprocessing", name): (name,)
        for name in data.preprocessing
        if name != ANY_COLUMN
    }
    for path, group in named.items():
        for name in group:
            if name not in columns:
                yield Problem(
                    json_pointer(path),
                    "no_such_column",
                    f"a column of {reference}: {first_names(columns) or 'none'}",
                    format_value(name),
                    closest_match(name, columns[:MAX_CLOSEST]),
                )
    if () in targets.values():
        expected = f"the column to predict, one of {first_names(columns) or 'none'}"
        yield Problem("/data/target", "target_needed", expected, "none")


def _path_of_target(spec: JobSpec, data: AnyFile, output: str) -> tuple[str, ...]:
    """Where the spec names the columns of the target of an output, or could."""
    task = spec.task
    if not isinstance(task, Outputs):
        return ("data", "target")
    if output not in (data.targets or {}) and task.outputs[output].target is not None:
        return ("task", "outputs", output, "target")
    return ("data", "targets", output)
