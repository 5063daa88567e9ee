"""Storage backend for a local folder, or a network share that every machine has mounted.

Each folder in the path of a file is opened separately and without following symbolic links, so
that a link created there cannot lead out of the folder.
"""

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

CHUNK_BYTES: Final = 256 * 1024
_READ_BYTES: Final = 2**20
_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_FOLLOW: Final = os.O_NOFOLLOW | os.O_CLOEXEC


OnProgress = Callable[[int], object]
"""Called during an upload with the number of bytes that are stored so far."""


def ignore_progress(_stored_bytes: int) -> None:
    """The `OnProgress` of a caller that does not need it."""


class ContentMismatch(OSError):
    """A file has another size or SHA-256 than it was stored with."""


class FolderStore:
    """Files below `root`. A new file gets its name once it is complete and synced to disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(
        self,
        parts: tuple[str, ...],
        file: Path,
        sha256: str | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> tuple[int, str]:
        """Store a file: as a hard link on the same file system, else as a copy."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
        with open_regular_file(file) as source, self._folder(parts[:-1], make=True) as folder:
            part_name = f".{secrets.token_hex(8)}.part"
            try:
                size_and_digest = _link(source, file, folder, part_name, sha256)
                size_and_digest = size_and_digest or _copy(source, folder, part_name, on_progress)
                os.rename(part_name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(part_name, dir_fd=folder)
                raise
            os.fsync(folder)
        return size_and_digest

    def fetch(self, parts: tuple[str, ...], file: Path, sha256: str) -> None:
        """Copy a stored file to `file`, which exists only if its SHA-256 is correct."""
        part_file = file.with_name(f".{secrets.token_hex(8)}.part")
        try:
            with self._file(parts) as source, part_file.open("xb") as target:
                _, digest = copy_and_hash(source, target)
            check_sha256(digest, sha256)
            part_file.replace(file)
        finally:
            part_file.unlink(missing_ok=True)

    def read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        """The bytes of a range; the file is open until the iterator is exhausted or closed."""
        pieces = self._read(parts, start, end)
        next(pieces)  # opens it
        return pieces

    def local_file(self, parts: tuple[str, ...]) -> Path:
        """The path of a stored file."""
        with self._file(parts):  # it exists, and no link leads out of the folder
            return self._root.joinpath(*parts)

    def remove(self, parts: tuple[str, ...]) -> None:
        """Delete a file, or the link with its name."""
        with suppress(FileNotFoundError), self._folder(parts[:-1]) as folder:
            os.unlink(parts[-1], dir_fd=folder)

    def remove_all(self, parts: tuple[str, ...]) -> None:
        """Delete a folder; a link in it is deleted, not followed."""
        with suppress(FileNotFoundError), self._folder(parts[:-1]) as folder:
            shutil.rmtree(parts[-1], dir_fd=folder)

    def _read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        with self._file(parts) as source:
            if source.seek(0, os.SEEK_END) < end:
                raise ContentMismatch(f"the file is {end - source.tell()} bytes too short")
            yield b""
            source.seek(start)
            remaining_bytes = end - start
            while remaining_bytes > 0:
                piece = source.read(min(CHUNK_BYTES, remaining_bytes))
                if not piece:
                    raise ContentMismatch(f"the file is {remaining_bytes} bytes too short")
                remaining_bytes -= len(piece)
                yield piece

    def _file(self, parts: tuple[str, ...]) -> IO[bytes]:
        with self._folder(parts[:-1]) as folder:
            return open_regular_file(parts[-1], folder)

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder below the root."""
        descriptor = open_folder(self._root, parts, make=make)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def open_folder(root: Path, parts: tuple[str, ...], *, make: bool = False) -> int:
    """A descriptor, to be closed, of a folder below another one; links are not followed.

    With `make`, missing folders are created. Raises OSError.
    """
    descriptor = os.open(root, _OPEN_FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            inner = os.open(part, _OPEN_FOLDER | _NO_FOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_sha256(digest: str, sha256: str) -> None:
    """Raise ContentMismatch if the content has changed since it was stored."""
    if digest != sha256:
        raise ContentMismatch(f"expected SHA-256 {sha256}, received {digest}")


def open_regular_file(name: Path | str, folder: int | None = None) -> IO[bytes]:
    """Open a regular file for reading; not a link, a pipe or a device."""
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | _NO_FOLLOW
    file = open(os.open(name, flags, dir_fd=folder), "rb", buffering=0)  # noqa: SIM115 - returned open
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "expected a regular file")
    return file


def _link(
    source: IO[bytes], file: Path, folder: int, name: str, sha256: str | None
) -> tuple[int, str] | None:
    """Hard-link an open file into a folder; None if that is not possible."""
    with suppress(OSError):  # another file system, or one without hard links
        if os.fstat(source.fileno()).st_uid != os.geteuid():
            return None  # its owner could change the stored bytes, or make them unreadable
        os.link(file, name, dst_dir_fd=folder, follow_symlinks=False)
        if not os.path.samestat(os.stat(name, dir_fd=folder), os.fstat(source.fileno())):
            os.unlink(name, dir_fd=folder)  # the file was replaced in the meantime
            return None
        size_and_digest = hash_unless_known(source, sha256)
        os.fsync(source.fileno())
        return size_and_digest
    return None


def hash_unless_known(source: IO[bytes], sha256: str | None) -> tuple[int, str]:
    """The size of an open file, and its SHA-256, which is computed unless it is known."""
    if sha256 is None:
        return copy_and_hash(source)
    return os.fstat(source.fileno()).st_size, sha256


def _copy(source: IO[bytes], folder: int, name: str, on_progress: OnProgress) -> tuple[int, str]:
    """Copy an open file into a folder."""
    source.seek(0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
    with open(os.open(name, flags, 0o644, dir_fd=folder), "wb") as target:
        size_and_digest = copy_and_hash(source, target, on_progress)
        target.flush()
        os.fsync(target.fileno())
    return size_and_digest


def copy_and_hash(
    source: IO[bytes],
    target: IO[bytes] | None = None,
    on_progress: OnProgress = ignore_progress,
) -> tuple[int, str]:
    """Read a file to its end, and write it to `target`; its size in bytes and its SHA-256."""
    digest = hashlib.sha256()
    # One buffer: a new block of memory for each read would cost as much time as the read.
    total, buffer = 0, memoryview(bytearray(_READ_BYTES))
    while size := source.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(buffer[:size])
        total += size
        if target is not None:
            write_all(target, buffer[:size])
        on_progress(total)
    return total, digest.hexdigest()


def write_all(file: IO[bytes], content: bytes | memoryview) -> None:
    """Write all bytes: an unbuffered file may write only some at a time."""
    unwritten_bytes = memoryview(content)
    while unwritten_bytes:
        unwritten_bytes = unwritten_bytes[file.write(unwritten_bytes) :]
