"""Loads the examples of a data file, in any format, for a task."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data.dataset import Dataset, Signature
from ampcore.data.examples import ArrayExamples, Batch, Examples, consecutive, example_bytes
from ampcore.data.files import resolve_path
from ampcore.data.preprocessing import CONCATENATED, ColumnPlan, PreparedInputs
from ampcore.data.registry import LoadOptions, register
from ampcore.data.targets import OUTPUT, Encoding, encode, join_columns
from ampcore.errors import InvalidData
from ampcore.formats import Column, Source, list_splits, open_source
from ampcore.spec.data import AnyFile
from ampcore.spec.preprocessing import Preprocessing
from ampcore.spec.rules import train_examples
from ampcore.spec.task import Outputs, TargetKind, TaskSpec

CHUNK_BYTES: Final = 16 * 2**20
"""Raw rows are read in pieces of about this size."""
EVERY_COLUMN: Final = "*"
"""The key of preprocessing for all columns without an own one."""
DEFAULT_SPLIT: Final = 0.2
"""The share for validation of data without a part of its own for it."""
SEED_SALT: Final = 5
"""Salts the generator, so that other users of the job's seed draw other numbers."""
MAX_NAMED: Final = 10
ARRAY_INPUTS: Final = ("x", "image", "images")
ARRAY_TARGETS: Final = ("y", "label", "labels", "mask", "target")
"""Columns that are inputs and targets by their names."""


@dataclass(frozen=True)
class Part:
    """Some rows of a source."""

    source: Source
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Roles:
    """The columns of each input, and of each target by the output that it belongs to."""

    inputs: Mapping[str, tuple[str, ...]]
    targets: Mapping[str, tuple[str, ...]]
    kinds: Mapping[str, TargetKind]


class FileExamples:
    """Examples that are read and prepared as they are needed.

    Args:
        part: The rows.
        inputs: Prepares them.
        targets: The targets of all rows.
        name: The name of the file in errors.
    """

    def __init__(self, part: Part, inputs: PreparedInputs, targets: Any, name: str) -> None:
        self._part, self._inputs, self._targets, self._name = part, inputs, targets, name
        specs = inputs.specs
        x = specs if len(specs) > 1 else next(iter(specs.values()))
        y = x if targets is None else tf.nest.map_structure(_spec_of, targets)
        self.spec = Batch(x, y)

    def __len__(self) -> int:
        return len(self._part.rows)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """The prepared examples with these indices. Raises InvalidData for a bad row."""
        numbers = self._part.rows[rows]
        raw = self._part.source.read(numbers, self._inputs.columns)
        self._check(raw, numbers)
        x = self._inputs(raw)
        if self._targets is None:
            return Batch(x, x)
        return Batch(x, tf.nest.map_structure(lambda array: array[rows], self._targets))

    def _check(self, raw: Mapping[str, NDArray[Any]], numbers: NDArray[np.int64]) -> None:
        for column, values in raw.items():
            if values.dtype.kind != "f":
                continue
            allows_nan = self._inputs.plans[column].options.missing != "error"
            with np.errstate(over="ignore"):
                finite = np.isfinite(values.astype(np.float32, copy=False))
            bad = ~(finite | np.isnan(values)) if allows_nan else ~finite
            if bad.any():
                place = tuple(np.argwhere(bad)[0])
                raise InvalidData(
                    self._name,
                    f"row {numbers[place[0]] + 1}, column {column}",
                    expected="a number that is finite in float32",
                    received=str(values[place]),
                )


@register("npz", "npy", "csv", "parquet", "images", "tfrecord")
def load_file(spec: AnyFile, options: LoadOptions) -> Dataset:
    """The examples of a file, with the layers that prepare them.

    Args:
        spec: The format, the roles of the columns and their preprocessing.
        options: The task, the seed, and where files may be.

    Raises:
        InvalidData: The file or a value of it is not valid, or does not fit the task.
    """
    name, task, memory_bytes = spec.path, options.task, options.memory_bytes
    path = resolve_path(spec.path, options.data_root)
    # Its sources stay open during the run; the folder is removed with the dataset.
    cache = _CacheFolder()
    training, held_out = _parts(spec, path, cache.path, name, options.seed)
    roles = _roles(spec, task, training.source.columns, name)
    inputs = PreparedInputs(_plans(spec, roles, training.source, name), _chunks(training), name)
    targets, encodings = _targets(training, roles, name)
    train = _examples(training, inputs, targets, name, memory_bytes)
    validation = None
    if held_out is not None:
        _check_same_columns(training.source, held_out.source, roles, name)
        own = _encoded(held_out, roles, encodings, name)
        validation = _examples(held_out, inputs, own, name, memory_bytes)
    signature = _signature(inputs, encodings)
    return Dataset(train, validation, signature, inputs, resources=cache)


def _has_target(spec: AnyFile, source: Source) -> bool:
    named = spec.target or ARRAY_TARGETS
    return spec.targets is not None or any(column in source.columns for column in named)


class _CacheFolder:
    """A folder for converted files; it is removed with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ampcore-data-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _parts(
    spec: AnyFile, path: Path, cache: Path, name: str, seed: int
) -> tuple[Part, Part | None]:
    """The training rows, and those for validation."""
    splits = list_splits(path, spec, cache=cache, name=name)
    source = open_source(path, spec, cache=cache, name=name)
    if spec.kind == "npz" and "x" in source.columns and not _has_target(spec, source):
        # It leaves out arrays with another number of rows; asked for them, it says so.
        open_source(path, spec, cache=cache, name=name, columns=["x", "y"])
    own = next((split for split in ("validation", "test") if split in splits), None)
    if not spec.validation_split and own is not None and "train" in splits:
        other = open_source(path, spec, cache=cache, name=name, split=own)
        return Part(source, np.arange(source.rows)), Part(other, np.arange(other.rows))
    share = DEFAULT_SPLIT if spec.validation_split is None else spec.validation_split
    rows = np.arange(source.rows)
    if share and spec.validation_rows == "random":
        rows = np.random.default_rng([seed, SEED_SALT]).permutation(source.rows)
    split_at = train_examples(source.rows, share)
    train, held_out = np.sort(rows[:split_at]), np.sort(rows[split_at:])
    return Part(source, train), Part(source, held_out) if len(held_out) else None


def _check_same_columns(train: Source, other: Source, roles: Roles, name: str) -> None:
    """Raise InvalidData unless validation examples have the inputs of training examples."""
    for column in (column for group in roles.inputs.values() for column in group):
        wanted, found = train.columns[column], other.columns.get(column)
        if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            received = "no such column" if found is None else f"{found.dtype} {list(found.shape)}"
            raise InvalidData(
                name,
                f"{column} of the validation examples",
                expected=f"{wanted.dtype} {list(wanted.shape)}, as of the training examples",
                received=received,
            )


def _roles(spec: AnyFile, task: TaskSpec | None, columns: Mapping[str, Column], name: str) -> Roles:
    targets, kinds = _target_roles(spec, task, columns, name)
    used = {column for group in targets.values() for column in group}
    if spec.inputs is not None:
        inputs = {input_name: tuple(group) for input_name, group in spec.inputs.items()}
    else:
        named = [column for column in ARRAY_INPUTS if column in columns and column not in used]
        others = [column for column in columns if column not in used]
        group = tuple(named[:1] or others)
        inputs = {group[0] if len(group) == 1 else CONCATENATED: group}
    for input_name, group in inputs.items():
        _check_columns(group, columns, name, f"inputs.{input_name}")
        if both := [column for column in group if column in used]:
            raise InvalidData(
                name, f"inputs.{input_name}", expected="no targets", received=", ".join(both)
            )
    return Roles(inputs, targets, kinds)


def _target_roles(
    spec: AnyFile, task: TaskSpec | None, columns: Mapping[str, Column], name: str
) -> tuple[dict[str, tuple[str, ...]], dict[str, TargetKind]]:
    if isinstance(task, Outputs):
        targets: dict[str, tuple[str, ...]] = {
            output: (own.target or output,) for output, own in task.outputs.items()
        }
        targets |= {output: tuple(group) for output, group in (spec.targets or {}).items()}
        kinds = {output: own.task.target for output, own in task.outputs.items()}
    elif task is not None and task.target == "input":
        return {}, {}
    else:
        group = tuple(spec.target or [one for one in ARRAY_TARGETS if one in columns][:1])
        if not group:
            raise InvalidData(
                name,
                "target",
                expected=f"the column to predict, one of {', '.join(list(columns)[:MAX_NAMED])}",
                received="none",
            )
        targets, kinds = {OUTPUT: group}, {OUTPUT: task.target if task is not None else "class"}
    for output, group in targets.items():
        _check_columns(group, columns, name, f"targets.{output}")
    return targets, kinds


def _check_columns(
    group: Sequence[str], columns: Mapping[str, Column], name: str, field: str
) -> None:
    unknown = [column for column in group if column not in columns]
    if unknown or not group:
        raise InvalidData(
            name,
            field,
            expected=f"columns of the data: {', '.join(list(columns)[:MAX_NAMED]) or 'none'}",
            received=", ".join(unknown) or "none",
        )


def _plans(spec: AnyFile, roles: Roles, source: Source, name: str) -> dict[str, list[ColumnPlan]]:
    every = {column for group in roles.inputs.values() for column in group}
    unknown = [one for one in spec.preprocessing if one != EVERY_COLUMN and one not in every]
    if unknown:
        raise InvalidData(
            name,
            f"preprocessing.{unknown[0]}",
            expected=f"an input column: {', '.join(sorted(every)[:MAX_NAMED])}",
            received="a column that is no input",
        )
    default = spec.preprocessing.get(EVERY_COLUMN, Preprocessing())
    return {
        input_name: [
            _plan(column, source.columns[column], spec.preprocessing.get(column, default), name)
            for column in group
        ]
        for input_name, group in roles.inputs.items()
    }


def _plan(column: str, found: Column, options: Preprocessing, name: str) -> ColumnPlan:
    is_text = found.dtype == "string"
    numeric = options.rescaling is not None or options.normalize or options.keys
    if is_text and numeric:
        raise InvalidData(
            name,
            f"preprocessing.{column}",
            expected="categories or tokens, for text",
            received="rescaling, normalize or keys",
        )
    if (options.tokens is not None and not is_text) or (
        found.dtype.startswith("float") and (options.keys or options.categories is not None)
    ):
        raise InvalidData(
            name,
            f"preprocessing.{column}",
            expected=f"rescaling, normalize or missing, for {found.dtype}",
            received="tokens, keys or categories",
        )
    return ColumnPlan(column, found, options)


def _chunks(part: Part) -> Callable[[list[str]], Iterator[Mapping[str, NDArray[Any]]]]:
    """Reads some columns of all rows, piece by piece."""

    def read(columns: list[str]) -> Iterator[Mapping[str, NDArray[Any]]]:
        row_bytes = sum(8 * int(np.prod(part.source.columns[column].shape)) for column in columns)
        size = max(1, CHUNK_BYTES // max(1, row_bytes))
        for start in range(0, len(part.rows), size):
            yield part.source.read(part.rows[start : start + size], columns)

    return read


def _targets(part: Part, roles: Roles, name: str) -> tuple[Any, dict[str, Encoding]]:
    targets, encodings = {}, {}
    for output, values, group in _target_values(part, roles):
        column = part.source.columns[group[0]]
        field = ", ".join(group)
        targets[output], encodings[output] = encode(
            roles.kinds[output], values, column, name, field
        )
    return _one_or_all(targets), encodings


def _encoded(part: Part, roles: Roles, encodings: Mapping[str, Encoding], name: str) -> Any:
    return _one_or_all(
        {
            output: encodings[output](values, name, ", ".join(group))
            for output, values, group in _target_values(part, roles)
        }
    )


def _target_values(part: Part, roles: Roles) -> Iterator[tuple[str, NDArray[Any], tuple[str, ...]]]:
    """The values of each target, whose columns are joined."""
    for output, group in roles.targets.items():
        pieces = list(_chunks(part)(list(group)))
        columns = [np.concatenate([piece[column] for piece in pieces]) for column in group]
        yield output, join_columns(columns), group


def _examples(
    part: Part, inputs: PreparedInputs, targets: Any, name: str, memory_bytes: float
) -> Examples:
    examples = FileExamples(part, inputs, targets, name)
    if example_bytes(examples) * len(examples) > memory_bytes:
        return examples
    size = max(1, CHUNK_BYTES // max(1, example_bytes(examples)))
    pieces = list(consecutive(examples, size))
    return ArrayExamples(
        tf.nest.map_structure(lambda *parts: np.concatenate(parts), *pieces)
        if len(pieces) > 1
        else pieces[0]
    )


def _signature(inputs: PreparedInputs, encodings: Mapping[str, Encoding]) -> Signature:
    first, spec = next(iter(inputs.specs.items()))
    shape = tuple(spec.shape)
    size = int(np.prod(shape))
    targets = dict(encodings) or {OUTPUT: Encoding("input", size)}
    return Signature(
        shape,
        spec.dtype.name,
        next(iter(targets.values())).size,
        inputs.vocabulary[first],
        inputs=inputs.specs if len(inputs.specs) > 1 else {},
        given_targets=targets,
    )


def _one_or_all(values: dict[str, Any]) -> Any:
    if OUTPUT in values:
        return values[OUTPUT]
    return values or None


def _spec_of(array: NDArray[Any]) -> tf.TensorSpec:
    return tf.TensorSpec(array.shape[1:], array.dtype)
