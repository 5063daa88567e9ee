"""Where the files of jobs are kept: a folder (`file://`), or what else fsspec reaches (`s3://`).

A file is named by its job and a path below the job's folder, and nothing that a path says leads
out of that folder. A file is there as a whole or not at all.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from service.folder import Folder, WrongBytes

LONGEST_PATH: Final = 500
JOB_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


class StorageFailed(Exception):
    """The storage did not do what it was asked; the message says what, and why."""


class NotStored(StorageFailed):
    """The storage answers, and has no such file."""


class Damaged(StorageFailed):
    """The storage has the file, and its bytes are not what they must be."""


class PathInvalid(StorageFailed):
    """A path that could lead out of its job's folder, or that some storage cannot keep."""


class Place(Protocol):
    """What every kind of storage can do; it raises OSError. `parts` begin with the job's id."""

    def put(self, parts: tuple[str, ...], file: Path) -> tuple[int, str]:
        """Keep a file; its size in bytes and its SHA-256."""

    def fetch(self, parts: tuple[str, ...], file: Path, sha256: str) -> None:
        """Bring a file here."""

    def read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`; raises before the first piece is asked for."""

    def remove(self, parts: tuple[str, ...]) -> None:
        """Delete a file that may be gone already."""

    def remove_all(self, parts: tuple[str, ...]) -> None:
        """Delete a folder that may be gone already, with all that is in it."""


class Storage:
    """The files of jobs at an address; nothing is loaded or opened before the first use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: Place | None = None

    def put(self, job_id: str, path: str, file: Path) -> tuple[int, str]:
        """Keep a file, in the place of one that has that path; its size in bytes and its SHA-256.

        The file must not be written to afterwards: it may be kept as a second name of the same
        bytes. Raises StorageFailed, and then keeps what was there before.
        """
        with _failing(f"{path} could not be stored"):
            return self._place.put(_parts(job_id, path), file)

    def fetch(self, job_id: str, path: str, file: Path, sha256: str) -> None:
        """Bring a file here, if its bytes are what they must be. Raises StorageFailed."""
        with _failing(f"{path} could not be fetched"):
            self._place.fetch(_parts(job_id, path), file, sha256)

    def read(self, job_id: str, path: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`, piece by piece; to be closed by who stops early.

        Raises StorageFailed, at once where the file cannot be opened.
        """
        with _failing(f"{path} could not be read"):
            pieces = self._place.read(_parts(job_id, path), start, end)
        return _pieces(path, pieces)

    def remove(self, job_id: str, paths: Collection[str]) -> None:
        """Delete files; those that are gone are no error. Raises StorageFailed."""
        for path in paths:
            with _failing(f"{path} could not be deleted"):
                self._place.remove(_parts(job_id, path))

    def remove_job(self, job_id: str) -> None:
        """Delete every file of a job. Raises StorageFailed."""
        with _failing(f"the files of job {job_id} could not be deleted"):
            self._place.remove_all(_parts(job_id))

    def check(self) -> None:
        """Raises StorageFailed when a folder of this machine cannot be used; asks no other kind."""
        if isinstance(self._place, Folder):
            with _failing("the folder of the artifacts cannot be used"):
                self._place.check()

    @property
    def _place(self) -> Place:
        if self._opened is None:
            self._opened = _open(self._url)
        return self._opened


def check_path(path: str) -> str:
    """The path, if it stays in its folder on every storage. Raises PathInvalid."""
    if not path or len(path) > LONGEST_PATH:
        raise PathInvalid(f"Expected a path of 1 to {LONGEST_PATH} characters, got {len(path)}.")
    if "\\" in path or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in path):
        raise PathInvalid(f"Expected a path without backslashes and control characters: {path!a}.")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise PathInvalid(f"Expected a path that stays below its folder: {path!a}.")
    return path


def _parts(job_id: str, path: str | None = None) -> tuple[str, ...]:
    if not JOB_ID.fullmatch(job_id):
        raise PathInvalid(f"Expected the id of a job, received {job_id[:40]!a}.")
    return (job_id, *check_path(path).split("/")) if path is not None else (job_id,)


def _open(url: str) -> Place:
    """The storage at an address. What a kind needs is loaded only where that kind is used."""
    address = urlsplit(url)
    if address.scheme == "file":
        return Folder(Path(unquote(address.path)))
    from service.object_store import ObjectStore

    return ObjectStore(url)


def _pieces(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    with _failing(f"{path} could not be read to its end"):
        yield from pieces


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Raises StorageFailed for what goes wrong inside."""
    try:
        yield
    except WrongBytes as error:
        raise Damaged(f"{what}: {error}.") from error
    except FileNotFoundError as error:
        raise NotStored(f"{what}: {_cause(error)}.") from error
    except OSError as error:
        raise StorageFailed(f"{what}: {_cause(error)}.") from error


def _cause(error: OSError) -> str:
    """Why, without the path on this machine."""
    return error.strerror or str(error) or type(error).__name__
