"""The files of a table by split: one file, or those of a folder or zip in the order of their names.

The files of a zip are extracted once, into the cache.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from ampcore.errors import InvalidData
from ampcore.formats.cache import converted
from ampcore.formats.files import DataFile, is_ignored, list_folder
from ampcore.formats.source import Request, Split, choose_split
from ampcore.formats.split_names import (
    ALIASES,
    file_split,
    folder_split,
    in_order,
    pattern_split,
)
from ampcore.formats.zip_members import ZipMembers, is_zip

TableFiles = Mapping[Split | None, Sequence[DataFile]]
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a value."""


def table_files(request: Request, is_table: Callable[[str], bool]) -> TableFiles:
    """The files by split; all under None if no name contains one.

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
    others = by_split.pop(None, [])
    if request.split_patterns and not by_split:
        expected = f"files for {', '.join(request.split_patterns.values())}"
        raise InvalidData(request.name, "splits", expected=expected, received="none")
    if others and by_split and not request.split_patterns:
        raise InvalidData(
            others[0].name,
            None,
            expected="a name with train, validation or test, like the others, or the option "
            "`splits`",
            received="another name",
        )
    parts: TableFiles = by_split or {None: others}
    return {split: sorted(part, key=lambda file: file.name) for split, part in parts.items()}


def splits_of(files: TableFiles) -> tuple[Split, ...]:
    """The splits of a table's files."""
    return in_order(split for split in files if split is not None)


def files_of_split(request: Request, files: TableFiles) -> Sequence[DataFile]:
    """The files of the wanted split. Raises InvalidData."""
    return files[choose_split(request.name, splits_of(files), request.split)]


def hive_values(request: Request, file: DataFile) -> dict[str, str | None]:
    """The values in the names of a file's folders, as Hive and Spark write them: `label=cat`."""
    folders = _parts_below(request, file)[:-1]
    pairs = [folder.partition("=") for folder in folders if "=" in folder.strip("=")]
    return {unquote(key): None if value == NULL else unquote(value) for key, _, value in pairs}


def split_column(request: Request, files: TableFiles) -> str | None:
    """The key of folders such as `split=train`, which are no column."""
    return _split_key([hive_values(request, file) for part in files.values() for file in part])


def _split_key(values: Sequence[Mapping[str, str | None]]) -> str | None:
    """The key whose values are all names of splits, also of training data."""
    for key in values[0]:
        splits = {ALIASES.get((one.get(key) or "").lower()) for one in values}
        if "train" in splits and None not in splits:
            return key
    return None


def _split_of(request: Request, file: DataFile, split_key: str | None) -> Split | None:
    parts = _parts_below(request, file)
    if request.split_patterns:
        return pattern_split("/".join(parts), request.split_patterns)
    if split_key is not None:
        return folder_split(hive_values(request, file)[split_key] or "")
    splits = [split for folder in parts[:-1] if (split := folder_split(folder))]
    return splits[-1] if splits else file_split(parts[-1])


def _parts_below(request: Request, file: DataFile) -> list[str]:
    return file.name.removeprefix(f"{request.name}/").split("/")


def _list_files(request: Request, is_table: Callable[[str], bool]) -> Iterator[DataFile]:
    """The files of a folder or zip, or the only one. Raises InvalidData."""
    if request.path.is_dir():
        for parts in list_folder(request.path, request.name, request.limits.files):
            if is_table(parts[-1]) and not any(map(_is_temporary, parts)):
                yield DataFile(request.path.joinpath(*parts), "/".join((request.name, *parts)))
    elif request.path.is_file() and is_zip(DataFile(request.path, request.name)):
        yield from _extracted(request, is_table)
    else:
        yield DataFile(request.path, request.name)


def _extracted(request: Request, is_table: Callable[[str], bool]) -> Iterator[DataFile]:
    """The files of a zip, in the cache and with numbers for names."""
    archive = DataFile(request.path, request.name)
    with ZipMembers(archive, request.limits) as members:
        tables = [
            member
            for member in members.members
            if is_table(member.name)
            and not any(is_ignored(part) or _is_temporary(part) for part in member.name.split("/"))
        ]
        members.check_total(tables, request.limits.cache_bytes)

        def extract(folder: Path) -> None:
            for number, member in enumerate(tables):
                with (folder / str(number)).open("wb") as stream:
                    stream.writelines(members.blocks(member))

        names = [member.name for member in tables]
        folder = converted(request.cache, ("zip", archive.fingerprint(), names), extract)
    for number, name in enumerate(names):
        yield DataFile(folder / str(number), f"{request.name}/{name}")


def _is_temporary(name: str) -> bool:
    """Files of Spark that are no part of a table: `_SUCCESS`, `_temporary`."""
    return name.startswith("_") and "=" not in name
