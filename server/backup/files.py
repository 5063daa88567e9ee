"""Copy the files of a folder into a backup, and back."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from infra.storage import CHECK_FOLDER
from server.backup.manifest import READ_BYTES, FilesCopy, StoredFile


def local_folder(artifacts_url: str) -> Path | None:
    """The folder of a storage of files; None for an object store."""
    address = urlsplit(artifacts_url)
    return Path(unquote(address.path)) if address.scheme == "file" else None


def copy_folder(source: Path, target: Path, name: str, listed: IO[str]) -> FilesCopy:
    """Copy a folder to `target / name`, and write a line for each file to `listed`.

    The service may run: files that are deleted meanwhile are left out, and so are files that are
    not complete yet.
    """
    count = size_bytes = 0
    for path in regular_files(source):
        relative = f"{name}/{path.relative_to(source).as_posix()}"
        try:
            file = copy_file(path, target / relative, relative)
        except FileNotFoundError:  # deleted meanwhile
            continue
        listed.write(file.model_dump_json() + "\n")
        count, size_bytes = count + 1, size_bytes + file.size_bytes
    return FilesCopy(source=str(source), is_included=True, count=count, size_bytes=size_bytes)


def regular_files(folder: Path) -> Iterator[Path]:
    """The complete files below a folder, without links, temporary files and storage checks."""
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != CHECK_FOLDER)
        for name in sorted(names):
            path = Path(current) / name
            is_part = name.startswith(".") and name.endswith(".part")
            if not is_part and path.is_file() and not path.is_symlink():
                yield path


def copy_file(source: Path, target: Path, relative: str) -> StoredFile:
    """Copy a file; returns it with the SHA-256 of what was copied.

    Only the owner can read the copy and the folders that are created for it, whatever the umask.
    """
    with source.open("rb") as original:
        make_folder(target.parent)
        digest, size_bytes = hashlib.sha256(), 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(target, flags, stat.S_IRUSR | stat.S_IWUSR), "wb") as copy:
            while piece := original.read(READ_BYTES):
                digest.update(piece)
                size_bytes += copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())
    return StoredFile(path=relative, size_bytes=size_bytes, sha256=digest.hexdigest())


def make_folder(folder: Path) -> None:
    """Create a folder and the missing ones above it; `Path.mkdir` gives those the usual mode."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)


def is_empty(folder: Path) -> bool:
    """Whether there is no file below a folder, and it may be missing."""
    return next(regular_files(folder), None) is None
