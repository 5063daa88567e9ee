"""The files of a table by split: one file, or the files of a folder or zip, sorted by name.

Files of a zip and gzip-compressed files are extracted once, into the cache.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from ampdata.cache import converted
from ampdata.files import (
    GZIP,
    DataFile,
    files_left_out,
    is_ignored,
    list_folder,
    open_decompressed,
    open_file,
)
from ampdata.source import LeftOut, OpenRequest, Split, choose_split
from ampdata.split_names import ALIASES, file_split, folder_split, in_order, pattern_split
from ampdata.zip_members import ZipMembers, is_zip
from ampspec.errors import InvalidData

TableFiles = Mapping[Split | None, Sequence[DataFile]]
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a value."""
BLOCK: Final = 2**20
CONTENT: Final = "content"


def table_files(request: OpenRequest, is_table: Callable[[str], bool]) -> TableFiles:
    """The files by split; all under None if no name contains a split.

    With patterns for splits, other files are left out. Raises InvalidData.
    """
    files = list(_list_files(request, is_table))
    if not files:
        raise InvalidData(request.name, None, expected="files of this format", received="none")
    if files[0].name == request.name:
        return {None: files}
    by_split: dict[Split | None, list[DataFile]] = defaultdict(list)
    split_key = _split_key([hive_values(request, file) for file in files])
    for file in files:
        by_split[_split_of(request, file, split_key)].append(file)
    unassigned = by_split.pop(None, [])
    if request.split_patterns and not by_split:
        expected = f"files for {', '.join(request.split_patterns.values())}"
        raise InvalidData(request.name, "splits", expected=expected, received="none")
    if unassigned and by_split and not request.split_patterns:
        raise InvalidData(
            unassigned[0].name,
            None,
            expected="a name with train, validation or test, like the others, or the option "
            "`splits`",
            received="another name",
        )
    parts: TableFiles = by_split or {None: unassigned}
    return {split: sorted(part, key=lambda file: file.name) for split, part in parts.items()}


def tables_left_out(request: OpenRequest, is_table: Callable[[str], bool]) -> list[LeftOut]:
    """The files beside the tables of a folder or zip. Raises InvalidData."""
    if not request.path.is_dir() and not _is_archive(request):
        return []
    names = _names(request)
    tables = set(_tables(names, is_table))
    other_files = [name for name in names if name not in tables and not _is_hidden(name)]
    return files_left_out(other_files, "tables of this format")


def splits_of(files: TableFiles) -> tuple[Split, ...]:
    """The splits of a table's files."""
    return in_order(split for split in files if split is not None)


def files_of_split(request: OpenRequest, files: TableFiles) -> Sequence[DataFile]:
    """The files of the requested split. Raises InvalidData."""
    return files[choose_split(request.name, splits_of(files), request.split)]


def hive_values(request: OpenRequest, file: DataFile) -> dict[str, str | None]:
    """The values in the names of a file's folders, as Hive and Spark write them: `label=cat`."""
    folders = _parts_below(request, file)[:-1]
    pairs = [folder.partition("=") for folder in folders if "=" in folder.strip("=")]
    return {unquote(key): None if value == NULL else unquote(value) for key, _, value in pairs}


def split_column(request: OpenRequest, files: TableFiles) -> str | None:
    """The key of folders such as `split=train`, which are not columns."""
    return _split_key([hive_values(request, file) for part in files.values() for file in part])


def _split_key(values: Sequence[Mapping[str, str | None]]) -> str | None:
    """The key whose values are all names of splits, also of training data."""
    for key in values[0]:
        splits = {ALIASES.get((file_values.get(key) or "").lower()) for file_values in values}
        if "train" in splits and None not in splits:
            return key
    return None


def _split_of(request: OpenRequest, file: DataFile, split_key: str | None) -> Split | None:
    parts = _parts_below(request, file)
    if request.split_patterns:
        return pattern_split("/".join(parts), request.split_patterns)
    if split_key is not None:
        return folder_split(hive_values(request, file)[split_key] or "")
    splits = [split for folder in parts[:-1] if (split := folder_split(folder))]
    return splits[-1] if splits else file_split(parts[-1])


def _parts_below(request: OpenRequest, file: DataFile) -> list[str]:
    return file.name.removeprefix(f"{request.name}/").split("/")


def _list_files(request: OpenRequest, is_table: Callable[[str], bool]) -> Iterator[DataFile]:
    """The files of a folder or zip, or the only one. Raises InvalidData."""
    if _is_archive(request):
        files = _extracted(request, is_table)
    elif request.path.is_dir():
        files = {name: request.path / name for name in _names(request)}
    else:
        yield _decompressed(request, DataFile(request.path, request.name))
        return
    for name in _tables(files, is_table):
        file = DataFile(files[name], f"{request.name}/{name}")
        yield file if is_table(name) else _decompressed(request, file)


def _is_archive(request: OpenRequest) -> bool:
    return request.path.is_file() and is_zip(DataFile(request.path, request.name))


def _names(request: OpenRequest) -> list[str]:
    """The names of all files of a folder or zip. Raises InvalidData."""
    if request.path.is_dir():
        listed = list_folder(request.path, request.name, request.limits.files)
        return ["/".join(parts) for parts in listed]
    with ZipMembers(DataFile(request.path, request.name), request.limits) as zipped:
        return [member.name for member in zipped.members if not member.name.endswith("/")]


def _tables(names: Iterable[str], is_table: Callable[[str], bool]) -> list[str]:
    """The names of tables, also compressed ones, or that of the only file."""
    names = [name for name in names if not _is_hidden(name)]
    tables = [name for name in names if is_table(name.removesuffix(".gz"))]
    return tables or (names if len(names) == 1 else [])


def _extracted(request: OpenRequest, is_table: Callable[[str], bool]) -> dict[str, Path]:
    """The tables of a zip by their names, in the cache and with numbers for names."""
    archive = DataFile(request.path, request.name)
    with ZipMembers(archive, request.limits) as zipped:
        files = {member.name: member for member in zipped.members}
        names = [name for name in files if not name.endswith("/")]
        members = [files[name] for name in _tables(names, is_table)]
        zipped.check_total(members, request.limits.cache_bytes)

        def extract(folder: Path) -> None:
            for number, member in enumerate(members):
                with (folder / str(number)).open("wb") as stream:
                    stream.writelines(zipped.blocks(member))

        folder = converted(request.cache, ("zip", archive.fingerprint(), members), extract)
    return {member.name: folder / str(number) for number, member in enumerate(members)}


def _decompressed(request: OpenRequest, file: DataFile) -> DataFile:
    """The file, or, if it is compressed by gzip, its content in the cache. Raises InvalidData."""
    with open_file(file) as stream:
        if stream.read(len(GZIP)) != GZIP:
            return file

    def write(folder: Path) -> None:
        size = 0
        with open_decompressed(file) as stream, (folder / CONTENT).open("wb") as target:
            while block := stream.read(BLOCK):
                size += len(block)
                if size > request.limits.cache_bytes:
                    expected = f"at most {request.limits.cache_bytes:,} bytes when decompressed"
                    raise InvalidData(file.name, None, expected=expected, received="more")
                target.write(block)

    folder = converted(request.cache, ("gzip", file.fingerprint()), write)
    return DataFile(folder / CONTENT, file.name)


def _is_hidden(name: str) -> bool:
    """Whether a file is a system file, or a Spark file such as `_SUCCESS` or `_temporary`."""
    return any(
        is_ignored(part) or (part.startswith("_") and "=" not in part) for part in name.split("/")
    )
