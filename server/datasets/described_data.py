"""Check the data section of a spec against the description of the dataset version that it names.

A job would find the same mistakes when it reads the file, after it has waited for a worker. What
depends on how the file is read is left to the job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ampcore.spec import JobSpec, Problem
from ampcore.spec.column_fit import preprocessing_misfit, target_misfit
from ampcore.spec.data import AnyFile, Csv, DataSpec, Images, Tfrecord
from ampcore.spec.data_rules import step_problems, train_examples, training_examples_text
from ampcore.spec.file_formats import MAX_DESCRIBED_COLUMNS
from ampcore.spec.model import Bundle, Layers
from ampcore.spec.preprocessing import Preprocessing
from ampcore.spec.problems import closest_match, format_value, json_pointer
from ampcore.spec.run import micro_batches
from ampcore.spec.target_columns import target_columns
from ampcore.spec.task import Outputs, TargetKind
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
    dtype: str
    shape: tuple[Any, ...]
    missing: int
    has_fractions: bool
    """Whether a number among the first rows is not whole."""

    @classmethod
    def of(cls, column: Mapping[str, Any]) -> "DescribedColumn":
        """The column of an entry of the description."""
        shape, missing = column.get("shape"), column.get("missing")
        statistics, dtype = column.get("statistics"), str(column.get("dtype", ""))
        is_whole = statistics.get("is_whole") if isinstance(statistics, dict) else None
        return cls(
            str(column.get("name", "")),
            dtype,
            tuple(shape) if isinstance(shape, list) else (),
            missing if isinstance(missing, int) else 0,
            dtype.startswith("float") and is_whole is False,
        )

    @property
    def has_any_size(self) -> bool:
        """Whether its images have several sizes."""
        return self.dtype == "image" and None in self.shape[:2]


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
    if getattr(data, "missing", "keep") == "keep":
        return
    if isinstance(data, Csv) and data.missing_values is not None:
        return
    targets = target_columns(data, spec.task, [column.name for column in columns])
    groups = [*(data.inputs or {}).values(), *targets.values()]
    used = {name for group in groups for name in group}
    for column in columns:
        if column.missing and (data.inputs is None or column.name in used):
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


def _misfits(
    spec: JobSpec, data: AnyFile, columns: Sequence[DescribedColumn], reference: str
) -> Iterator[Problem]:
    """The values of columns fit their preprocessing, the task and the shapes of the model."""
    by_name = {column.name: column for column in columns}
    targets = target_columns(data, spec.task, by_name)
    # Without named inputs, only columns with preprocessing are known to be some.
    inputs = data.inputs or {"": tuple(name for name in data.preprocessing if name in by_name)}
    default = data.preprocessing.get(ANY_COLUMN, Preprocessing())
    for name in dict.fromkeys(name for group in inputs.values() for name in group):
        options = data.preprocessing.get(name, default)
        if (misfit := preprocessing_misfit(by_name[name].dtype, options)) is not None:
            path = name if name in data.preprocessing else ANY_COLUMN
            pointer = json_pointer(("data", "preprocessing", path))
            expected = f"{misfit.expected} ({name} of {reference})"
            yield Problem(pointer, "wrong_preprocessing", expected, misfit.received)
    for output, group in targets.items():
        if (kind := _target_kind(spec, output)) is None:
            continue
        for column in [by_name[name] for name in group]:
            misfit = target_misfit(column.dtype, kind, has_fractions=column.has_fractions)
            if misfit is not None:
                pointer = json_pointer(_path_of_target(spec, data, output))
                expected = f"{misfit.expected}, in {column.name} of {reference}"
                yield Problem(pointer, "wrong_target", expected, misfit.received)
    yield from _shapes(spec, inputs, by_name, reference)


def _target_kind(spec: JobSpec, output: str) -> TargetKind | None:
    """What the targets of an output are; None where the kind of model decides."""
    if isinstance(spec.task, Outputs):
        return spec.task.outputs[output].task.target
    return spec.task.target if spec.task is not None else None


def _shapes(
    spec: JobSpec,
    inputs: Mapping[str, Sequence[str]],
    columns: Mapping[str, DescribedColumn],
    reference: str,
) -> Iterator[Problem]:
    """Inputs of a model of layers have the shapes of the arrays that they are."""
    if not isinstance(spec.model, Layers) or not spec.model.inputs:
        return
    groups = list(inputs.values())
    for number, (name, layer_input) in enumerate(spec.model.inputs.items()):
        group = inputs.get(name) or (groups[number] if len(groups) == 1 else ())
        if len(group) != 1:
            continue
        shape = columns[group[0]].shape
        if len(shape) > 1 and None not in shape and shape != tuple(layer_input.shape):
            pointer = json_pointer(("model", "inputs", name, "shape"))
            expected = f"{list(shape)}, the shape of {group[0]} of {reference}"
            yield Problem(pointer, "wrong_shape", expected, str(list(layer_input.shape)))


def _path_of_target(spec: JobSpec, data: AnyFile, output: str) -> tuple[str, ...]:
    """Where the spec names the columns of the target of an output, or could."""
    task = spec.task
    if not isinstance(task, Outputs):
        return ("data", "target")
    if output not in (data.targets or {}) and task.outputs[output].target is not None:
        return ("task", "outputs", output, "target")
    return ("data", "targets", output)
