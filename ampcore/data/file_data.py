"""Loads the examples of a data file, in any format, for a task."""

import shutil
import tempfile
import weakref
from pathlib import Path

from ampcore.data.column_data import all_rows, prepared_dataset, split_rows
from ampcore.data.dataset import Dataset
from ampcore.data.file_rows import FileRows
from ampcore.data.files import resolve_path
from ampcore.data.registry import LoadOptions, register
from ampcore.formats import list_splits, open_source
from ampcore.spec.data import AnyFile
from ampcore.spec.target_columns import target_columns


@register("npz", "npy", "csv", "parquet", "images", "tfrecord")
def load_file(spec: AnyFile, options: LoadOptions) -> Dataset:
    """The examples of a file, with the layers that prepare them.

    Args:
        spec: The format, the roles of the columns and their preprocessing.
        options: The task, the seed, and where files may be.

    Raises:
        InvalidData: The file or a value of it is not valid, or does not fit the task.
    """
    name = spec.file_reference
    path = resolve_path(name, options.data_root)
    # Its sources stay open during the run; the folder is removed with the dataset.
    cache = _CacheFolder()
    training, held_out = _parts(spec, path, cache.path, name, options)
    return prepared_dataset(spec, options, training, held_out, resources=cache)


class _CacheFolder:
    """A folder for converted files; it is removed with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ampcore-data-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _parts(
    spec: AnyFile, path: Path, cache: Path, name: str, options: LoadOptions
) -> tuple[FileRows, FileRows | None]:
    """The training rows, and those for validation."""
    splits = list_splits(path, spec, cache=cache, name=name)
    source = open_source(path, spec, cache=cache, name=name)
    targets = target_columns(spec, options.task, source.columns)
    if spec.kind == "npz" and "x" in source.columns and () in targets.values():
        # It leaves out arrays with another number of rows; asked for them, it says so.
        open_source(path, spec, cache=cache, name=name, columns=["x", "y"])
    own = next((split for split in ("validation", "test") if split in splits), None)
    if not spec.validation_split and own is not None and "train" in splits:
        other = open_source(path, spec, cache=cache, name=name, split=own)
        return all_rows(source, name), all_rows(other, name)
    return split_rows(spec, source, options.seed, name)
