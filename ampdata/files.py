"""Lists and opens the files of a data set; no files outside its folder, and no pipes."""

import errno
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import BinaryIO, Final, cast

from ampdata.source import LeftOut
from ampspec.documents.text import plural
from ampspec.errors import InvalidData

GZIP: Final = b"\x1f\x8b"
WRITE_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors of the cache folder, not of the data file."""


@dataclass(frozen=True)
class DataFile:
    """A file, and its name in messages."""

    path: Path
    name: str

    def fingerprint(self) -> tuple[str, int, int, int]:
        """A value that changes when the file is replaced or modified."""
        with read_errors(self.name):
            status = self.path.stat()
        return (self.name, status.st_ino, status.st_size, status.st_mtime_ns)


@contextmanager
def read_errors(name: str) -> Iterator[None]:
    """Turn OSErrors into InvalidData, without the path of the file."""
    try:
        yield
    except OSError as error:
        if error.errno in WRITE_ERRORS:
            raise
        received = error.strerror or "a file that cannot be read"
        raise InvalidData(name, None, expected="a file to read", received=received) from None


@contextmanager
def open_file(file: DataFile) -> Iterator[BinaryIO]:
    """Open a regular file to read. Raises InvalidData, also for errors while reading."""
    with read_errors(file.name):
        # Opening a pipe or a device could block forever.
        if not file.path.is_file():
            raise InvalidData(file.name, None, expected="a file", received="no file of this name")
        with file.path.open("rb") as stream:
            yield stream


@contextmanager
def open_decompressed(file: DataFile) -> Iterator[BinaryIO]:
    """Open a file that may be compressed by gzip. Raises InvalidData, also while reading."""
    with open_file(file) as stream:
        magic = stream.read(len(GZIP))
        stream.seek(0)
        if magic != GZIP:
            yield stream
            return
        try:
            with gzip.open(stream) as content:
                yield cast(BinaryIO, content)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InvalidData(
                file.name, None, expected="undamaged gzip data", received=str(error)
            ) from None


def read_range(descriptor: int, offset: int, size: int) -> bytes:
    """Read bytes of an open file without moving its position; fewer at the end of the file."""
    parts = []
    while size > 0 and (part := os.pread(descriptor, size, offset)):
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return b"".join(parts)


def list_folder(
    folder: Path, name: str, max_files: int, all_folders: set[tuple[str, ...]] | None = None
) -> Iterator[tuple[str, ...]]:
    """The files below a folder as parts of their paths, sorted, without hidden files.

    `all_folders` receives all folders, also empty ones.

    Raises InvalidData for a link that leads out of the folder, a linked folder, and too many files.
    """
    root = folder.resolve()
    count = 0
    pending: list[tuple[str, ...]] = [()]
    while pending:
        parts = pending.pop()
        place, folder = "/".join((name, *parts)), root.joinpath(*parts)
        with read_errors(place), os.scandir(folder) as scan:
            entries = list(islice(scan, max_files - count + 1))
        count += len(entries)
        if count > max_files:
            raise InvalidData(name, None, expected=f"at most {max_files:,} files", received="more")
        folders = []
        for entry in sorted(entries, key=lambda entry: entry.name):
            if is_ignored(entry.name):
                continue
            path = (*parts, entry.name)
            _check_name(name, path)
            if entry.is_symlink():
                _check_link(root, path, name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_file():
                yield path
            else:
                raise InvalidData(
                    "/".join((name, *path)), None, expected="a file", received="a special file"
                )
        pending += reversed(folders)
        if all_folders is not None:
            all_folders.update(folders)


def _check_name(name: str, parts: tuple[str, ...]) -> None:
    try:
        "/".join(parts).encode()
    except UnicodeEncodeError:  # bytes that Python keeps as surrogates
        shown = "/".join((name, *parts)).encode("utf-8", "backslashreplace").decode()
        raise InvalidData(shown, None, expected="a name in UTF-8", received="other bytes") from None


def _check_link(root: Path, parts: tuple[str, ...], name: str) -> None:
    try:
        target = root.joinpath(*parts).resolve(strict=True)
        allowed = target.is_relative_to(root) and target.is_file()
    except (OSError, RuntimeError):  # circular links
        allowed = False
    if not allowed:
        raise InvalidData(
            "/".join((name, *parts)),
            None,
            expected="a link to a file in the same folder",
            received="a link to something else",
        )


def is_ignored(name: str) -> bool:
    """Whether the operating system added this file to a folder or archive."""
    return name.startswith(".") or name in ("__MACOSX", "Thumbs.db", "desktop.ini")


def files_left_out(names: Iterable[str], expected: str) -> list[LeftOut]:
    """Files that are not read, counted by suffix.

    Args:
        names: The names of the files.
        expected: The kind of files that would be read, such as `images`.
    """
    suffixes = Counter(PurePath(name).suffix.lower() or PurePath(name).name for name in names)
    return [
        LeftOut(suffix, f"{plural(count, 'file')}, not {expected}")
        for suffix, count in sorted(suffixes.items())
    ]
