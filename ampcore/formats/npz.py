"""Reads NumPy's .npz: each array of the archive is a column.

Stored arrays are memory-mapped inside the archive; compressed ones are first decompressed into the
cache. `x_train` and `x_test` are the column `x` of two splits.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ampcore.errors import InvalidData
from ampcore.formats.array_source import ArraySource
from ampcore.formats.cache import converted
from ampcore.formats.column_names import check_column_names
from ampcore.formats.files import DataFile
from ampcore.formats.npy import NpyHeader, map_array, read_header
from ampcore.formats.place import Place
from ampcore.formats.source import Request, Split, choose_columns, choose_split
from ampcore.formats.split_names import array_split, in_order
from ampcore.formats.zip_members import Member, ZipMembers
from ampcore.spec.file_formats import NpzOptions
from ampcore.spec.text import join_names

SUFFIX: Final = ".npy"

Members = Mapping[str, Member]


class _Array(NamedTuple):
    member: Member
    header: NpyHeader


def npz_splits(request: Request, options: NpzOptions) -> tuple[Split, ...]:
    """The splits in the arrays' names. Raises InvalidData."""
    with _open_archive(request) as archive:
        return _splits(_members(archive), options)


def open_npz(request: Request, options: NpzOptions) -> ArraySource:
    """The wanted arrays of a split, by default all that are as long as `x`.

    Without an array `x` the largest one decides how many rows there are.

    Raises InvalidData: not such an archive, a wanted array is missing or has another number of
    rows, or a checksum is wrong.
    """
    with _open_archive(request) as archive:
        members = _members(archive)
        split = choose_split(request.name, _splits(members, options), request.split)
        available = _columns(request.name, members, options, split)
        check_column_names(Place(request.name), list(available), request.limits)
        names = choose_columns(request.name, available, request.columns)
        if not names:
            raise InvalidData(request.name, None, expected="an array", received="an empty archive")
        found = {name: _read_header(archive, available[name], request) for name in names}
        arrays = _with_equal_rows(request, found)
        folder = _verify(archive, request, [array.member for array in arrays.values()])
        mapped = {
            name: map_array(request.path, header, archive.data_offset(member) + header.data_offset)
            if member.stored
            else map_array(folder / _cached_name(member), header, header.data_offset)
            for name, (member, header) in arrays.items()
        }
    columns = {name: array.header.column() for name, array in arrays.items()}
    return ArraySource(request.name, columns, mapped)


def _open_archive(request: Request) -> ZipMembers:
    return ZipMembers(DataFile(request.path, request.name), request.limits)


def _members(archive: ZipMembers) -> dict[str, Member]:
    """The archive's arrays by name. Raises InvalidData if it contains other files."""
    members = {}
    for member in archive.members:
        if not member.name.endswith(SUFFIX):
            raise InvalidData(
                archive.name, member.name[:256], expected="only arrays", received="another file"
            )
        members[member.name.removesuffix(SUFFIX)] = member
    return members


def _splits(members: Members, options: NpzOptions) -> tuple[Split, ...]:
    if options.x in members or options.y in members:  # one split by its full name
        return ()
    found = {array_split(name)[1] for name in members}
    return in_order({split for split in found if split is not None})


def _columns(
    name: str, members: Members, options: NpzOptions, split: Split | None
) -> dict[str, Member]:
    """The arrays of a split by column."""
    if split is None:
        arrays = dict(members)
    else:
        pairs = {array_split(one): member for one, member in members.items()}
        arrays = {column: member for (column, of), member in pairs.items() if of == split}
    for column, wanted in (("x", options.x), ("y", options.y)):
        if wanted is None:
            continue
        if wanted not in arrays:
            raise InvalidData(
                name, column, expected=f"an array {wanted}", received=join_names(members, 20)
            )
        arrays[column] = arrays[wanted]
        if wanted not in ("x", "y"):
            del arrays[wanted]
    return arrays


def _read_header(archive: ZipMembers, member: Member, request: Request) -> _Array:
    start = next(archive.blocks(member), b"")
    field = member.name.removesuffix(SUFFIX)
    header = read_header(io.BytesIO(start), request.name, field, request.limits)
    held = member.size - header.data_offset
    if held != header.size_bytes:
        raise InvalidData(
            request.name,
            field,
            expected=f"{header.size_bytes:,} bytes of data, as its header says",
            received=f"{held:,}",
        )
    return _Array(member, header)


def _with_equal_rows(request: Request, arrays: dict[str, _Array]) -> dict[str, _Array]:
    """All wanted arrays; by default those that have as many rows as `x`, or the largest."""
    largest = max(arrays, key=lambda name: arrays[name].header.size_bytes)
    reference = "x" if "x" in arrays else largest
    rows = arrays[reference].header.shape[0]
    if request.columns is None:
        return {name: array for name, array in arrays.items() if array.header.shape[0] == rows}
    for name, array in arrays.items():
        if array.header.shape[0] != rows:
            raise InvalidData(
                request.name,
                name,
                expected=f"{rows:,} rows, as many as {reference}",
                received=f"{array.header.shape[0]:,}",
            )
    return arrays


def _verify(archive: ZipMembers, request: Request, members: list[Member]) -> Path:
    """Check the CRC-32 of every array once; the folder with the compressed ones."""
    size = sum(member.size for member in members if not member.stored)
    if size > request.limits.cache_bytes:
        raise InvalidData(
            request.name,
            None,
            expected=f"at most {request.limits.cache_bytes:,} bytes when decompressed",
            received=f"{size:,}",
        )

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
