"""The files of a table: one, or those of a folder by split, in the order of their names."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from ampcore.errors import InvalidData
from ampcore.formats.files import DataFile, list_folder
from ampcore.formats.source import Request, Split, choose_split
from ampcore.formats.split_names import file_split, folder_split, in_order

TableFiles = Mapping[Split | None, Sequence[DataFile]]


def table_files(request: Request, is_table: Callable[[str], bool]) -> TableFiles:
    """The files by split; all under None if no name contains one. Raises InvalidData."""
    if not request.path.is_dir():
        return {None: [DataFile(request.path, request.name)]}
    found: dict[Split | None, list[DataFile]] = defaultdict(list)
    for parts in list_folder(request.path, request.name, request.limits.files):
        if not is_table(parts[-1]):
            continue
        splits = [split for folder in parts[:-1] if (split := folder_split(folder))]
        split = splits[-1] if splits else file_split(parts[-1])
        file = DataFile(request.path.joinpath(*parts), "/".join((request.name, *parts)))
        found[split].append(file)
    if not found:
        raise InvalidData(request.name, None, expected="files of this format", received="none")
    if None in found and len(found) > 1:
        raise InvalidData(
            found[None][0].name,
            None,
            expected="a name with train, validation or test, like the others",
            received="another name",
        )
    return {split: sorted(files, key=lambda file: file.name) for split, files in found.items()}


def splits_of(files: TableFiles) -> tuple[Split, ...]:
    """The splits of a table's files."""
    return in_order({split for split in files if split is not None})


def files_of_split(request: Request, files: TableFiles) -> Sequence[DataFile]:
    """The files of the wanted split. Raises InvalidData."""
    return files[choose_split(request.name, splits_of(files), request.split)]
