"""Check the data section of a spec against the description of the dataset version that it names.

A job would find the same mistakes when it reads the file, after it has waited for a worker. What
depends on how the file is read is left to the job.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ampspec.data.column_fit import preprocessing_misfit, target_misfit
from ampspec.data.data import AnyFile, Csv, DataSpec, Images, Tfrecord
from ampspec.data.file_formats import MAX_DESCRIBED_COLUMNS
from ampspec.data.input_columns import input_columns
from ampspec.data.row_split import train_examples
from ampspec.data.target_columns import target_columns
from ampspec.documents.problems import closest_match, format_value, json_pointer
from ampspec.documents.text import first_names
from ampspec.jobs import JobSpec, Problem
from ampspec.models.model import Bundle
from ampspec.objectives.task import Outputs
from ampspec.rules.data_rules import step_problems, training_examples_text
from ampspec.training.run import micro_batches
from server.datasets.describe import FORMAT_OPTIONS
from server.datasets.described_column import DescribedColumn
from server.datasets.model_fit import (
    DescribedData,
    preprocessing_of,
    problems_of_model,
    target_kind,
)
from store.files.datasets import DESCRIBED, INVALID
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
    columns = [_declared(DescribedColumn.of(column), data) for column in version.columns or []]
    problems = [
        *_batch(spec, data, version.rows, reference),
        *_image_size(data, columns, reference),
    ]
    is_complete = 0 < len(columns) < MAX_DESCRIBED_COLUMNS  # descriptions of wide tables are cut
    if is_complete and _has_described_columns(data, version):
        problems += _missing_values(spec, data, columns, reference)
        names = list(_names(spec, data, [column.name for column in columns], reference))
        problems += names or _misfits(spec, data, columns, reference)
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
    data: AnyFile, columns: Sequence[DescribedColumn], reference: str
) -> Iterator[Problem]:
    differ = any(column.has_any_size for column in columns)
    if isinstance(data, Images) and data.size is None and differ:
        expected = f"[height, width], since the images of {reference} have several sizes"
        yield Problem("/data/size", "size_needed", expected, "none")


def _declared(column: DescribedColumn, data: AnyFile) -> DescribedColumn:
    """The column with the type that the spec says."""
    if not isinstance(data, Csv) or column.name not in data.dtypes:
        return column
    return replace(column, dtype=data.dtypes[column.name], has_fractions=False)


def _missing_values(
    spec: JobSpec, data: AnyFile, columns: Sequence[DescribedColumn], reference: str
) -> Iterator[Problem]:
    """The columns that a job reads have a value in each row, or may lack some."""
    if isinstance(data, Csv) and data.missing_values is not None:
        return
    targets = target_columns(data, spec.task, [column.name for column in columns])
    target_names = {name for group in targets.values() for name in group}
    input_names = {name for group in (data.inputs or {}).values() for name in group}
    keeps = getattr(data, "missing", "keep") == "keep"
    for column in columns:
        is_target = column.name in target_names
        is_input = not is_target and (data.inputs is None or column.name in input_names)
        missing = column.missing + (column.nan if is_target else 0)
        if not missing or not (is_target or is_input):
            continue
        reason = f"since the column {column.name} of {reference} has {missing} rows without a value"
        if is_target and data.missing_targets == "error":
            expected = f"leave_out, {reason}"
            yield Problem("/data/missing_targets", "missing_values", expected, "error")
            return
        # A row that is left out for its target may be the one that lacks an input.
        if is_input and not keeps and data.missing_targets == "error":
            yield Problem("/data/missing", "missing_values", f"keep, {reason}", "error")
            return


def _names(
    spec: JobSpec, data: AnyFile, columns: Sequence[str], reference: str
) -> Iterator[Problem]:
    """Named columns exist, and there is one for each target."""
    targets = target_columns(data, spec.task, columns)
    columns_by_path: dict[tuple[str, ...], Sequence[str]] = {
        _path_of_target(spec, data, output): group for output, group in targets.items()
    }
    columns_by_path |= {
        ("data", "inputs", name): group for name, group in (data.inputs or {}).items()
    }
    columns_by_path |= {
        ("data", "preprocessing", name): (name,)
        for name in data.preprocessing
        if name != ANY_COLUMN
    }
    for path, group in columns_by_path.items():
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


def _misfits(
    spec: JobSpec, data: AnyFile, columns: Sequence[DescribedColumn], reference: str
) -> Iterator[Problem]:
    """The values of columns fit their preprocessing, the task and the model."""
    by_name = {column.name: column for column in columns}
    targets = target_columns(data, spec.task, by_name)
    used = {name for group in targets.values() for name in group}
    inputs = input_columns(data, used, by_name)
    described = DescribedData(by_name, inputs, targets, reference)
    yield from _inputs_that_are_targets(inputs, used, reference)
    for name in dict.fromkeys(name for group in inputs.values() for name in group):
        misfit = preprocessing_misfit(by_name[name].dtype, preprocessing_of(spec, name))
        if misfit is not None:
            path = name if name in data.preprocessing else ANY_COLUMN
            pointer = json_pointer(("data", "preprocessing", path))
            expected = f"{misfit.expected} ({name} of {reference})"
            yield Problem(pointer, "wrong_preprocessing", expected, misfit.received)
    for output, group in targets.items():
        if (kind := target_kind(spec, output)) is None:
            continue
        for column in [by_name[name] for name in group]:
            misfit = target_misfit(
                column.dtype,
                kind,
                has_fractions=column.has_fractions,
                low=column.low,
                high=column.high,
            )
            if misfit is not None:
                pointer = json_pointer(_path_of_target(spec, data, output))
                expected = f"{misfit.expected}, in {column.name} of {reference}"
                yield Problem(pointer, "wrong_target", expected, misfit.received)
    if all(inputs.values()):
        yield from problems_of_model(spec, described)


def _inputs_that_are_targets(
    inputs: Mapping[str, Sequence[str]], targets: Collection[str], reference: str
) -> Iterator[Problem]:
    for name, group in inputs.items():
        if both := [column for column in group if column in targets]:
            expected = f"columns of {reference} that are no targets"
            pointer = json_pointer(("data", "inputs", name))
            yield Problem(pointer, "input_is_target", expected, ", ".join(both))


def _path_of_target(spec: JobSpec, data: AnyFile, output: str) -> tuple[str, ...]:
    """Where the spec names the columns of the target of an output, or could."""
    task = spec.task
    if not isinstance(task, Outputs):
        return ("data", "target")
    if output not in (data.targets or {}) and task.outputs[output].target is not None:
        return ("task", "outputs", output, "target")
    return ("data", "targets", output)
