"""Loads the examples of a data file, in any format, for a task."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ampcore.data.dataset import Dataset
from ampcore.data.files import resolve_path
from ampcore.data.preparation.column_roles import Roles, column_roles
from ampcore.data.preparation.file_rows import FileRows
from ampcore.data.preparation.targets import LEAVE_OUT
from ampcore.data.registry import LoadOptions, register
from ampcore.data.sources.column_data import all_rows, prepared_dataset, split_rows
from ampdata import Column, ListedColumns, Source, Split, list_columns, list_splits, open_source
from ampspec.data.data import AnyFile
from ampspec.data.input_columns import INPUT_NAMES
from ampspec.data.target_columns import TARGET_NAMES
from ampspec.errors import InvalidData

KEEP: Final = ", or `missing: keep`"
"""What the readers of tables say about a missing value."""


@register("npz", "npy", "csv", "parquet", "images", "tfrecord")
def load_file(spec: AnyFile, options: LoadOptions) -> Dataset:
    """The examples of a file, with the layers that prepare them.

    Args:
        spec: The format, the roles of the columns and their preprocessing.
        options: The task, and where files may be.

    Raises:
        InvalidData: The file or a value of it is not valid, or does not fit the task.
    """
    name = spec.file_reference
    path = resolve_path(name, options.data_root)
    readable = _with_missing_targets(spec)
    # Its sources stay open during the run; the folder is removed with the dataset.
    cache = _CacheFolder()
    available = list_columns(path, readable, cache=cache.path, name=name)
    roles = _roles(spec, options, available, name)
    with _target_errors(roles):
        training, held_out = _parts(readable, path, cache.path, roles)
    return prepared_dataset(spec, options, training, held_out, available=available, resources=cache)


def _with_missing_targets(spec: AnyFile) -> AnyFile:
    """The options with which the file is read: rows without a target must be readable."""
    if spec.missing_targets == "error" or getattr(spec, "missing", "keep") == "keep":
        return spec
    return spec.model_copy(update={"missing": "keep"})


class _CacheFolder:
    """A folder for converted files; it is removed with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ampcore-data-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _parts(
    spec: AnyFile, path: Path, cache: Path, roles: Roles
) -> tuple[FileRows, FileRows | None]:
    """The training rows, and those for validation, with only the columns that are used."""
    name = spec.file_reference
    groups = [*roles.inputs.values(), *roles.targets.values()]
    columns = list(dict.fromkeys(column for group in groups for column in group))
    splits = list_splits(path, spec, cache=cache, name=name)

    def open_part(split: Split | None) -> Source:
        return open_source(path, spec, cache=cache, name=name, split=split, columns=columns)

    source = open_part(None)
    held_out = next((split for split in ("validation", "test") if split in splits), None)
    if not spec.validation_split and held_out is not None:
        try:
            return all_rows(source, name), all_rows(open_part(held_out), name)
        except InvalidData as error:
            expected = f"{error.expected}, in the part {held_out}; or a `validation_split`"
            raise InvalidData(
                error.source, error.field, expected=expected, received=error.received
            ) from None
    return split_rows(spec, source, name)


@contextmanager
def _target_errors(roles: Roles) -> Iterator[None]:
    """Say what a spec can do about a missing target; the reader knows no targets."""
    try:
        yield
    except InvalidData as error:
        fields = [f"column {column}" for group in roles.targets.values() for column in group]
        if KEEP not in error.expected or not (error.field or "").endswith(tuple(fields)):
            raise
        expected = error.expected.replace(KEEP, LEAVE_OUT)
        raise InvalidData(
            error.source, error.field, expected=expected, received=error.received
        ) from None


def _roles(spec: AnyFile, options: LoadOptions, available: ListedColumns, name: str) -> Roles:
    """The columns of inputs and targets; what the spec does not name is not read.

    Also columns that are left out if it names them, or by their names, so that the reader says why.
    """
    groups = [*(spec.inputs or {}).values(), spec.target or (), *(spec.targets or {}).values()]
    names = {column for group in groups for column in group}
    names |= {*TARGET_NAMES, *(INPUT_NAMES if spec.inputs is None else ())}
    left_out = [column.name for column in available.left_out if column.name in names]
    columns = {**available.columns, **dict.fromkeys(left_out, Column((), "string"))}
    return column_roles(spec, options.task, columns, name)
