"""Storage backend for object stores, through fsspec: `s3://` and others.

The library of the store reads the credentials: for S3, from the AWS variables
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION, AWS_PROFILE, …).
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from infra.folder_store import (
    ContentMismatch,
    OnProgress,
    check_sha256,
    copy_and_hash,
    hash_unless_known,
    ignore_progress,
    open_regular_file,
)

CHUNK_BYTES: Final = 4 * 2**20
"""Download piece: each is one request, so that no connection stays open in between."""
T = TypeVar("T")


def _callback(on_progress: OnProgress) -> Any:
    """Callback of a store's library during an upload."""
    from fsspec.callbacks import Callback

    def report(size: int | None, value: int, **_: Any) -> None:
        on_progress(value)

    return Callback(hooks={"progress": report})


class ObjectStore:
    """Objects below a URL. An upload is atomic: readers get the old bytes or the new ones."""

    def __init__(self, url: str) -> None:
        self._url = url

    def put(
        self,
        parts: tuple[str, ...],
        file: Path,
        sha256: str | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> tuple[int, str]:
        """Upload a file; how often `on_progress` is called depends on the library of the store."""
        with open_regular_file(file) as source:
            size, digest = hash_unless_known(source, sha256)
            same = f"/dev/fd/{source.fileno()}"  # whatever file has the name by now
            callback = _callback(on_progress)
            self._do(lambda fs, key: self._put(fs, same, key, callback), parts)
        stored_bytes = self._do(lambda fs, key: fs.info(key)["size"], parts)
        if stored_bytes != size:
            raise OSError(f"{size} bytes were sent, but {stored_bytes} were stored")
        return size, digest

    def fetch(self, parts: tuple[str, ...], file: Path, sha256: str) -> None:
        """Download a file to `file`, which exists only if its SHA-256 is correct."""
        part_file = file.with_name(f".{secrets.token_hex(8)}.part")
        try:
            self._do(lambda fs, key: fs.get_file(key, str(part_file)), parts)
            with open_regular_file(part_file) as source:
                check_sha256(copy_and_hash(source)[1], sha256)
            part_file.replace(file)
        finally:
            part_file.unlink(missing_ok=True)

    def read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        """The bytes of a range, one request per piece; the first request is sent at once."""
        pieces = self._read(parts, start, end)
        next(pieces)
        return pieces

    def local_file(self, _parts: tuple[str, ...]) -> None:
        """No object is a local file."""

    def remove(self, parts: tuple[str, ...]) -> None:
        """Delete an object."""
        with suppress(FileNotFoundError):
            self._do(lambda fs, key: fs.rm_file(key), parts)

    def remove_all(self, parts: tuple[str, ...]) -> None:
        """Delete all objects below a prefix."""
        with suppress(FileNotFoundError):
            self._do(lambda fs, key: fs.rm(key, recursive=True), parts)

    def _put(self, fs: Any, file: str, key: str, callback: Any) -> None:
        """Upload a file; where folders are real, as with SFTP, those below the URL are created."""
        try:
            fs.put_file(file, key, callback=callback)
        except FileNotFoundError:
            if not fs.isdir(self._reached[1]):
                raise  # no such bucket
            fs.makedirs(key.rpartition("/")[0], exist_ok=True)
            fs.put_file(file, key, callback=callback)

    def _read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        size = self._do(lambda fs, key: fs.info(key)["size"], parts)
        if size < end:
            raise ContentMismatch(f"the file is {end - size} bytes too short")
        yield b""
        for at in range(start, end, CHUNK_BYTES):
            yield self._piece(parts, at, min(at + CHUNK_BYTES, end))

    def _piece(self, parts: tuple[str, ...], start: int, end: int) -> bytes:
        return bytes(self._do(lambda fs, key: fs.cat_file(key, start=start, end=end), parts))

    def _do(self, work: Callable[[Any, str], T], parts: tuple[str, ...]) -> T:
        """Call the store. Raises OSError, whatever its library raises."""
        try:
            fs, root = self._reached
            return work(fs, "/".join((root, *parts)))
        except OSError:
            raise
        except Exception as error:
            raise OSError(str(error) or type(error).__name__) from error

    @cached_property
    def _reached(self) -> tuple[Any, str]:
        """The fsspec file system, and the prefix of all our objects."""
        from fsspec.core import url_to_fs

        # Other processes write too, so listings must not be cached.
        fs, root = url_to_fs(self._url, use_listings_cache=False, skip_instance_cache=True)
        return fs, str(root).rstrip("/")
