"""Reads NumPy's .npz: each array of the archive is a column.

Stored arrays are memory-mapped inside the archive; compressed ones are first decompressed into the
cache. `x_train` and `x_test`, or `x` and `x_test`, are the column `x` of two splits.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ampdata.arrays.array_source import ArraySource
from ampdata.arrays.npy import NpyHeader, UnsupportedArray, map_array, read_header
from ampdata.cache import converted
from ampdata.column_names import check_column_names
from ampdata.files import DataFile
from ampdata.place import Place
from ampdata.source import LeftOut, ListedColumns, OpenRequest, Split, choose_columns, choose_split
from ampdata.split_names import ArraySplits, array_split, in_order, split_arrays
from ampdata.zip_members import Member, ZipMembers
from ampspec.data.file_formats import NpzOptions
from ampspec.documents.text import join_names
from ampspec.errors import InvalidData

SUFFIX: Final = ".npy"

Members = Mapping[str, Member]


class _Array(NamedTuple):
    member: Member
    header: NpyHeader


class _Selection(NamedTuple):
    """The selected arrays by column, and the arrays left out."""

    arrays: Mapping[str, _Array]
    left_out: Sequence[LeftOut]


def npz_splits(request: OpenRequest, options: NpzOptions) -> tuple[Split, ...]:
    """The splits in the arrays' names. Raises InvalidData."""
    with _open_archive(request) as archive:
        return _splits(_arrays_by_split(request, _members(archive), options))


def npz_columns(request: OpenRequest, options: NpzOptions) -> ListedColumns:
    """The columns that `open_npz` reads by default, from the headers alone. Raises InvalidData."""
    with _open_archive(request) as archive:
        arrays, left_out = _choose(archive, request, options)
    return ListedColumns({name: array.header.column() for name, array in arrays.items()}, left_out)


def open_npz(request: OpenRequest, options: NpzOptions) -> ArraySource:
    """The requested arrays of a split, by default all usable ones with as many rows as `x`.

    Without an array `x` the largest one decides the number of rows.

    Raises InvalidData: not such an archive, a requested array is missing or has another number
    of rows, or a checksum is wrong.
    """
    with _open_archive(request) as archive:
        arrays, left_out = _choose(archive, request, options)
        folder = _verify(archive, request, [array.member for array in arrays.values()])
        mapped = {
            name: map_array(request.path, header, archive.data_offset(member) + header.data_offset)
            if member.stored
            else map_array(folder / _cached_name(member), header, header.data_offset)
            for name, (member, header) in arrays.items()
        }
    columns = {name: array.header.column() for name, array in arrays.items()}
    source = ArraySource(request.name, columns, mapped)
    source.left_out = left_out
    return source


def _open_archive(request: OpenRequest) -> ZipMembers:
    return ZipMembers(DataFile(request.path, request.name), request.limits)


def _members(archive: ZipMembers) -> dict[str, Member]:
    """The archive's arrays by name. Raises InvalidData if it contains other files."""
    members = {}
    for member in archive.members:
        if member.name.endswith("/"):
            continue
        if not member.name.endswith(SUFFIX):
            raise InvalidData(
                archive.name, member.name[:256], expected="only arrays", received="another file"
            )
        members[member.name.removesuffix(SUFFIX)] = member
    return members


def _arrays_by_split(request: OpenRequest, members: Members, options: NpzOptions) -> ArraySplits:
    """The arrays of each split. Raises InvalidData for ambiguous names."""
    full_names = {options.x, options.y} & members.keys()
    if any(array_split(str(name))[1] for name in full_names):  # one split by its full name
        return ArraySplits({None: {name: name for name in members}})
    return split_arrays(Place(request.name), members, request.split_patterns)


def _splits(arrays: ArraySplits) -> tuple[Split, ...]:
    return in_order(split for split in arrays.parts if split is not None)


def _choose(archive: ZipMembers, request: OpenRequest, options: NpzOptions) -> _Selection:
    """The requested arrays, or all that can be columns. Raises InvalidData."""
    members = _members(archive)
    by_split = _arrays_by_split(request, members, options)
    split = choose_split(request.name, _splits(by_split), request.split)
    columns = _columns(request.name, by_split.parts[split], options)
    check_column_names(Place(request.name), list(columns), request.limits)
    names = choose_columns(request.name, columns, request.columns)
    if not names:
        raise InvalidData(request.name, None, expected="an array", received="an empty archive")
    arrays, left_out = (
        {},
        [LeftOut(name, "an array without a split") for name in by_split.other_arrays],
    )
    error: UnsupportedArray | None = None
    for name in names:
        try:
            arrays[name] = _read_header(archive, members[columns[name]], request)
        except UnsupportedArray as unsupported:
            if request.columns is not None:
                raise
            error = error or unsupported
            left_out.append(LeftOut(name, unsupported.received))
    if not arrays and error is not None:
        raise error
    return _with_equal_rows(request, arrays, left_out)


def _columns(name: str, arrays: Mapping[str, str], options: NpzOptions) -> dict[str, str]:
    """The names of a split's arrays by column, with the arrays that become `x` and `y`."""
    columns = dict(arrays)
    for column, array_name in (("x", options.x), ("y", options.y)):
        if array_name is None:
            continue
        if array_name not in columns:
            raise InvalidData(
                name, column, expected=f"an array {array_name}", received=join_names(columns, 20)
            )
        columns[column] = columns[array_name]
        if array_name not in ("x", "y"):
            del columns[array_name]
    return columns


def _read_header(archive: ZipMembers, member: Member, request: OpenRequest) -> _Array:
    start = next(archive.blocks(member), b"")
    field = member.name.removesuffix(SUFFIX)
    header = read_header(io.BytesIO(start), request.name, field, request.limits)
    data_bytes = member.size - header.data_offset
    if data_bytes != header.size_bytes:
        raise InvalidData(
            request.name,
            field,
            expected=f"{header.size_bytes:,} bytes of data, as its header says",
            received=f"{data_bytes:,}",
        )
    return _Array(member, header)


def _with_equal_rows(
    request: OpenRequest, arrays: Mapping[str, _Array], left_out: Sequence[LeftOut]
) -> _Selection:
    """All requested arrays; by default those with as many rows as `x`, or as the largest."""
    largest = max(arrays, key=lambda name: arrays[name].header.size_bytes)
    reference = "x" if "x" in arrays else largest
    rows = arrays[reference].header.shape[0]
    expected = f"{rows:,} rows, as many as {reference}"
    row_counts = {
        name: f"{array.header.shape[0]:,}"
        for name, array in arrays.items()
        if array.header.shape[0] != rows
    }
    if row_counts and request.columns is not None:
        name = next(iter(row_counts))
        raise InvalidData(request.name, name, expected=expected, received=row_counts[name])
    shorter = [
        LeftOut(name, f"{count} rows instead of {expected}") for name, count in row_counts.items()
    ]
    equal = {name: array for name, array in arrays.items() if name not in row_counts}
    return _Selection(equal, [*left_out, *shorter])


def _verify(archive: ZipMembers, request: OpenRequest, members: list[Member]) -> Path:
    """Check the CRC-32 of every array once; returns the folder with the decompressed arrays."""
    compressed = [member for member in members if not member.stored]
    archive.check_total(compressed, request.limits.cache_bytes)

    def write(folder: Path) -> None:
        for member in members:
            if member.stored:
                for _ in archive.blocks(member):
                    pass
                continue
            with (folder / _cached_name(member)).open("wb") as stream:
                stream.writelines(archive.blocks(member))

    key = ("npz", DataFile(request.path, request.name).fingerprint(), members)
    return converted(request.cache, key, write)


def _cached_name(member: Member) -> str:
    """A file name that does not depend on the names in the archive."""
    return f"{member.header_offset}{SUFFIX}"
