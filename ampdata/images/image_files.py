"""The image files of a folder or an archive, by their paths inside it."""

import os
from typing import Final, Protocol

from ampdata.cache import digest
from ampdata.files import DataFile, is_ignored, list_folder, open_file
from ampdata.source import OpenRequest
from ampdata.zip_members import Member, ZipMembers
from ampspec.errors import InvalidData

START_BYTES: Final = 65_536

FilePath = tuple[str, ...]
"""The folders and the name of a file."""


class ImageFiles(Protocol):
    """The files of a folder or an archive."""

    paths: list[FilePath]
    folders: set[FilePath]
    """All folders, also empty ones."""

    def read(self, path: FilePath) -> bytes:
        """The content of a file. Raises InvalidData."""

    def start(self, path: FilePath) -> bytes:
        """The start of a file, which usually contains the size of the image."""

    def fingerprint(self) -> object:
        """A value that changes with the files."""

    def close(self) -> None:
        """Close open files."""


class FolderFiles:
    """The files below a folder."""

    def __init__(self, request: OpenRequest) -> None:
        """List them. Raises InvalidData."""
        self._request = request
        self.folders: set[FilePath] = set()
        listed = list_folder(request.path, request.name, request.limits.files, self.folders)
        self.paths = list(listed)

    def read(self, path: FilePath) -> bytes:
        """The content of a file. Raises InvalidData."""
        max_bytes = self._request.limits.record_bytes
        file = self._file(path)
        with open_file(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > max_bytes:
                raise InvalidData(
                    file.name, None, expected=f"at most {max_bytes:,} bytes", received=f"{size:,}"
                )
            return stream.read(max_bytes)

    def start(self, path: FilePath) -> bytes:
        """The start of a file. Raises InvalidData."""
        with open_file(self._file(path)) as stream:
            return stream.read(START_BYTES)

    def fingerprint(self) -> object:
        """The name, size and time of every file."""
        return digest(self._file(path).fingerprint() for path in self.paths)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _file(self, path: FilePath) -> DataFile:
        return DataFile(self._request.path.joinpath(*path), "/".join((self._request.name, *path)))


class ZipFiles:
    """The files in an archive."""

    def __init__(self, request: OpenRequest) -> None:
        """Read the archive's directory. Raises InvalidData."""
        self._limits = request.limits
        self._file = DataFile(request.path, request.name)
        self._archive = ZipMembers(self._file, request.limits)
        self._members: dict[FilePath, Member] = {}
        self.folders: set[FilePath] = set()
        for member in self._archive.members:
            path = tuple(member.name.split("/"))
            if any(map(is_ignored, path)):
                continue
            self.folders.update(path[:depth] for depth in range(1, len(path)))
            if path[-1]:
                self._members[path] = member
        self.paths = sorted(self._members)

    def read(self, path: FilePath) -> bytes:
        """The content of a member. Raises InvalidData."""
        return self._archive.read(self._members[path], self._limits.record_bytes)

    def start(self, path: FilePath) -> bytes:
        """The start of a member. Raises InvalidData."""
        return next(self._archive.blocks(self._members[path]), b"")[:START_BYTES]

    def fingerprint(self) -> object:
        """The name, size and time of the archive."""
        return self._file.fingerprint()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


def open_files(request: OpenRequest) -> ImageFiles:
    """The files that a request names. Raises InvalidData."""
    return FolderFiles(request) if request.path.is_dir() else ZipFiles(request)
