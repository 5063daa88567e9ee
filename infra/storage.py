"""Storage of files: a folder (`file://`), or an object store (`s3://`, through fsspec).

A file is identified by a folder and a path below it; no path can lead out of that folder. Each job
has a folder, named by its id; datasets, their uploads and the files of projects have others. A file
is stored completely or not at all.
"""

import re
import secrets
import unicodedata
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from ampspec.jobs import Reason
from infra.folder_store import ContentMismatch, FolderStore, OnProgress, ignore_progress
from infra.job_failure import JobFailure

MAX_PATH_CHARS: Final = 500
CHECK_FOLDER: Final = "storage-checks"
"""The folder of the files that `Storage.check` stores for a moment."""
FOLDER_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


class StorageFailed(JobFailure):
    """An operation on the storage failed; the message says which, and why."""

    reason = Reason.STORAGE_UNAVAILABLE


class FileNotStored(StorageFailed):
    """The storage has no such file."""


class FileDamaged(StorageFailed):
    """The stored file has another size or SHA-256 than recorded."""


class PathInvalid(StorageFailed):
    """A path that could lead out of its folder, or that some backend cannot store."""


class StorageBackend(Protocol):
    """The interface of a backend; its methods raise OSError. `parts` start with the folder."""

    def put(
        self, parts: tuple[str, ...], file: Path, sha256: str | None, on_progress: OnProgress
    ) -> tuple[int, str]:
        """Store a file; returns its size in bytes and its SHA-256, computed unless it is given."""

    def fetch(self, parts: tuple[str, ...], file: Path, sha256: str) -> None:
        """Download a file, and check its SHA-256."""

    def read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`; raises at the call, not at the first piece."""

    def local_file(self, parts: tuple[str, ...]) -> Path | None:
        """The path of a stored file if it lies in a local folder, else None."""

    def remove(self, parts: tuple[str, ...]) -> None:
        """Delete a file; a missing one is not an error."""

    def remove_all(self, parts: tuple[str, ...]) -> None:
        """Delete a folder with its contents; a missing one is not an error."""


class Storage:
    """Folders of files below a URL; the backend is loaded and opened at the first use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: StorageBackend | None = None

    def put(
        self,
        folder: str,
        path: str,
        file: Path,
        *,
        sha256: str | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> tuple[int, str]:
        """Store a file, replacing one with that path; returns its size in bytes and its SHA-256.

        A caller that has computed the SHA-256 itself gives it, so that the file is not read for it.
        `on_progress` is called with the number of bytes that are stored so far; a store may report
        none before the end.
        The file must not be changed afterwards: it may be stored as a hard link. Raises
        StorageFailed, and then keeps the old file.
        """
        with _as_storage_errors(f"{path} could not be stored"):
            return self._place.put(_path_parts(folder, path), file, sha256, on_progress)

    def fetch(self, folder: str, path: str, file: Path, sha256: str) -> None:
        """Download a file, and check its SHA-256. Raises StorageFailed."""
        with _as_storage_errors(f"{path} could not be fetched"):
            self._place.fetch(_path_parts(folder, path), file, sha256)

    def read(self, folder: str, path: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`, in pieces; close the iterator to stop early.

        Raises StorageFailed, at the call if the file cannot be opened.
        """
        with _as_storage_errors(f"{path} could not be read"):
            pieces = self._place.read(_path_parts(folder, path), start, end)
        return _chunks(path, pieces)

    def remove(self, folder: str, paths: Collection[str]) -> None:
        """Delete files; a missing one is not an error. Raises StorageFailed."""
        for path in paths:
            with _as_storage_errors(f"{path} could not be deleted"):
                self._place.remove(_path_parts(folder, path))

    def remove_folder(self, folder: str) -> None:
        """Delete a folder with all its files. Raises StorageFailed."""
        with _as_storage_errors(f"the files of {folder} could not be deleted"):
            self._place.remove_all(_path_parts(folder))

    def check(self) -> None:
        """Store a small file, read it back and delete it. Raises StorageFailed."""
        content, parts = secrets.token_bytes(16), (CHECK_FOLDER, secrets.token_hex(8))
        with _as_storage_errors("the storage of artifacts cannot be used"), _file(content) as file:
            place = self._place
            size_bytes, _ = place.put(parts, file, None, ignore_progress)
            if b"".join(place.read(parts, 0, size_bytes)) != content:
                raise OSError("a file that was stored is read back with other bytes")
            place.remove(parts)

    def local_file(self, folder: str, path: str) -> Path | None:
        """The path of a stored file if it lies in a local folder; None for an object store.

        The file must only be read. Raises StorageFailed.
        """
        with _as_storage_errors(f"{path} could not be read"):
            return self._place.local_file(_path_parts(folder, path))

    @property
    def _place(self) -> StorageBackend:
        if self._opened is None:
            self._opened = _open_backend(self._url)
        return self._opened


@contextmanager
def _file(content: bytes) -> Iterator[Path]:
    """A temporary file with this content."""
    with NamedTemporaryFile(prefix="ampcore-storage-check-") as file:
        file.write(content)
        file.flush()
        yield Path(file.name)


def check_path(path: str) -> str:
    """Return the path if it stays in its folder on every backend. Raises PathInvalid."""
    if not path or len(path) > MAX_PATH_CHARS:
        raise PathInvalid(f"Expected a path of 1 to {MAX_PATH_CHARS} characters, got {len(path)}.")
    if "\\" in path or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in path):
        raise PathInvalid(f"Expected a path without backslashes and control characters: {path!a}.")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise PathInvalid(f"Expected a path that stays below its folder: {path!a}.")
    return path


def _path_parts(folder: str, path: str | None = None) -> tuple[str, ...]:
    if not FOLDER_NAME.fullmatch(folder):
        raise PathInvalid(f"Expected the name of a folder, received {folder[:40]!a}.")
    return (folder, *check_path(path).split("/")) if path is not None else (folder,)


def _open_backend(url: str) -> StorageBackend:
    """The backend for a URL. Its library is imported only if that backend is used."""
    address = urlsplit(url)
    if address.scheme == "file":
        return FolderStore(Path(unquote(address.path)))
    from infra.object_store import ObjectStore

    return ObjectStore(url)


def _chunks(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    with _as_storage_errors(f"{path} could not be read to its end"):
        yield from pieces


@contextmanager
def _as_storage_errors(what: str) -> Iterator[None]:
    """Turn an OSError inside into StorageFailed."""
    try:
        yield
    except ContentMismatch as error:
        raise FileDamaged(f"{what}: {error}.") from error
    except FileNotFoundError as error:
        raise FileNotStored(f"{what}: {_cause(error)}.") from error
    except OSError as error:
        raise StorageFailed(f"{what}: {_cause(error)}.") from error


def _cause(error: OSError) -> str:
    """The reason of an OSError, without the local path."""
    return error.strerror or str(error) or type(error).__name__
