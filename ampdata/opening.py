"""Opens a data file by the options of its format."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ampdata.limits import Limits
from ampdata.source import LeftOut, ListedColumns, OpenRequest, Source, Split
from ampdata.tables.table_files import tables_left_out
from ampspec.data.file_formats import FormatOptions
from ampspec.errors import InvalidData

MODULES: Final = {
    "npz": "arrays.npz",
    "npy": "arrays.npy",
    "csv": "csv.csv_table",
    "parquet": "tables.parquet_table",
    "images": "images.images",
    "tfrecord": "tfrecord.tfrecord_table",
    "text": "csv.text_file",
}
"""Each has `open_KIND`, `KIND_splits` if its data may have splits, and `KIND_columns` if columns
can be listed without reading their values."""


def open_source(
    path: Path,
    options: FormatOptions,
    *,
    cache: Path,
    split: Split | None = None,
    columns: Sequence[str] | None = None,
    name: str | None = None,
    limits: Limits | None = None,
) -> Source:
    """Open the rows of a data file.

    Args:
        path: A file, or a folder of images or of files of one format. The caller has checked that
            it may be read.
        options: The format, and how to read it.
        cache: A folder for converted files, for example the work folder of the job. A later open
            of the same file reuses them.
        split: The split to read. None: the training data, or all data without splits.
        columns: The columns to read; None for all.
        name: The file in messages; by default the last part of `path`.
        limits: The limits of the file.

    Raises:
        InvalidData: The file is damaged, too large, or not of this format; a row is bad; or a
            split or column does not exist.
        OSError: The cache cannot be written.
    """
    request = OpenRequest(path, name or path.name, cache, split, columns, limits or Limits())
    return open_request(request, options)


def list_columns(
    path: Path, options: FormatOptions, *, cache: Path, name: str | None = None
) -> ListedColumns:
    """The columns that `open_source` reads by default, if possible without reading all values.

    Columns of tables come from their schemas and first rows. Raises InvalidData.
    """
    request = _with_patterns(OpenRequest(path, name or path.name, cache), options)
    find = getattr(_module(options), f"{options.kind}_columns", None)
    if find is None or not path.exists():
        with open_request(request, options) as source:
            return ListedColumns(source.columns, source.left_out)
    columns: ListedColumns = find(request, options)
    return replace(columns, left_out=[*columns.left_out, *_files_left_out(request, options)])


def list_splits(
    path: Path, options: FormatOptions, *, cache: Path, name: str | None = None
) -> tuple[Split, ...]:
    """The splits named by files, folders or arrays; empty for data without splits.

    Raises InvalidData.
    """
    return splits_of_request(OpenRequest(path, name or path.name, cache), options)


def check_images(request: OpenRequest, options: FormatOptions) -> None:
    """Decode the images of all splits. Raises InvalidData, which names all damaged ones."""
    request = replace(request, any_size=True)
    for split in splits_of_request(request, options) or (None,):
        with open_request(replace(request, split=split), options) as source:
            source.check()


def open_request(request: OpenRequest, options: FormatOptions) -> Source:
    """Open the source of a request. Raises InvalidData."""
    if not request.path.exists():
        raise InvalidData(
            request.name, None, expected="a file or folder", received="no file of this name"
        )
    opener: Callable[[OpenRequest, Any], Source] = getattr(_module(options), f"open_{options.kind}")
    source = opener(_with_patterns(request, options), options)
    source.left_out = [*source.left_out, *_files_left_out(request, options)]
    return source


def splits_of_request(request: OpenRequest, options: FormatOptions) -> tuple[Split, ...]:
    """The splits of a request's data. Raises InvalidData."""
    find = getattr(_module(options), f"{options.kind}_splits", None)
    splits: tuple[Split, ...] = find(_with_patterns(request, options), options) if find else ()
    return splits


def _files_left_out(request: OpenRequest, options: FormatOptions) -> list[LeftOut]:
    is_table = getattr(_module(options), f"is_{options.kind}", None)
    return [] if is_table is None else tables_left_out(request, is_table)


def _with_patterns(request: OpenRequest, options: FormatOptions) -> OpenRequest:
    return replace(request, split_patterns=getattr(options, "splits", {}))


def _module(options: FormatOptions) -> Any:
    # Only the libraries of this format are loaded.
    return import_module(f"ampdata.{MODULES[options.kind]}")
