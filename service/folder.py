"""Files of jobs in a folder of this machine, or of a share that every machine has mounted.

Every folder on the way to a file is opened by itself and never through a symbolic link, so that
none that somebody puts there leads out.
"""

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

PIECE_BYTES: Final = 256 * 1024
_AT_ONCE: Final = 2**20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HERE: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class WrongBytes(OSError):
    """A file is shorter than it was, or holds other bytes."""


class Folder:
    """Files below `root`. A new one gets its name once it is whole and on the disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def check(self) -> None:
        """Raises OSError when the folder cannot be written to, nor made where it is to be."""
        there = next(path for path in (self._root, *self._root.parents) if path.exists())
        if not there.is_dir() or not os.access(there, os.R_OK | os.W_OK | os.X_OK):
            code = errno.EACCES if there.is_dir() else errno.ENOTDIR
            raise OSError(code, os.strerror(code))

    def put(self, parts: tuple[str, ...], file: Path) -> tuple[int, str]:
        """Keep a file: as a second name of its bytes on the same file system, else as a copy."""
        self._root.mkdir(parents=True, exist_ok=True)
        with opened(file) as source, self._folder(parts[:-1], make=True) as folder:
            unfinished = f".{secrets.token_hex(8)}.part"
            try:
                told = _link(source, file, folder, unfinished) or _copy(source, folder, unfinished)
                os.rename(unfinished, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
            os.fsync(folder)
        return told

    def fetch(self, parts: tuple[str, ...], file: Path, sha256: str) -> None:
        """Copy a file out; it has its name only when its bytes are right."""
        unfinished = file.with_name(f".{secrets.token_hex(8)}.part")
        try:
            with self._file(parts) as source, unfinished.open("xb") as target:
                _, digest = carry(source, target)
            must_be(digest, sha256)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)

    def read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        """The bytes of a range; the file is open until the last one, or until it is closed."""
        pieces = self._read(parts, start, end)
        next(pieces)  # opens it
        return pieces

    def remove(self, parts: tuple[str, ...]) -> None:
        """Delete a file, or the link in its place."""
        with suppress(FileNotFoundError), self._folder(parts[:-1]) as folder:
            os.unlink(parts[-1], dir_fd=folder)

    def remove_all(self, parts: tuple[str, ...]) -> None:
        """Delete a folder; of a link in it, the link alone."""
        with suppress(FileNotFoundError), self._folder(parts[:-1]) as folder:
            shutil.rmtree(parts[-1], dir_fd=folder)

    def _read(self, parts: tuple[str, ...], start: int, end: int) -> Iterator[bytes]:
        with self._file(parts) as source:
            if source.seek(0, os.SEEK_END) < end:
                raise WrongBytes(f"the file is {end - source.tell()} bytes too short")
            yield b""
            source.seek(start)
            left = end - start
            while left > 0:
                piece = source.read(min(PIECE_BYTES, left))
                if not piece:
                    raise WrongBytes(f"the file is {left} bytes too short")
                left -= len(piece)
                yield piece

    def _file(self, parts: tuple[str, ...]) -> IO[bytes]:
        with self._folder(parts[:-1]) as folder:
            return opened(parts[-1], folder)

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder below the root."""
        here = folder_below(self._root, parts, make=make)
        try:
            yield here
        finally:
            os.close(here)


def folder_below(root: Path, parts: tuple[str, ...], *, make: bool = False) -> int:
    """A descriptor, to be closed, of a folder below another one; no link is gone through.

    With `make` those that are not there are made. Raises OSError.
    """
    here = os.open(root, _FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            inner = os.open(part, _FOLDER | _HERE, dir_fd=here)
            os.close(here)
            here = inner
    except BaseException:
        os.close(here)
        raise
    return here


def must_be(digest: str, sha256: str) -> None:
    """Raises WrongBytes for bytes that have changed since they were stored."""
    if digest != sha256:
        raise WrongBytes(f"expected SHA-256 {sha256}, received {digest}")


def opened(name: Path | str, folder: int | None = None) -> IO[bytes]:
    """A file for reading; neither through a link, nor a pipe or a device."""
    # Without O_NONBLOCK, to open a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | _HERE
    file = open(os.open(name, flags, dir_fd=folder), "rb", buffering=0)  # noqa: SIM115 - it is the answer
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "expected a file of bytes")
    return file


def _link(source: IO[bytes], file: Path, folder: int, name: str) -> tuple[int, str] | None:
    """Give the bytes of an open file another name in a folder; None where that cannot be done."""
    with suppress(OSError):  # another file system, or one without links
        if os.fstat(source.fileno()).st_uid != os.geteuid():
            return None  # its owner could change, or close, what is kept
        os.link(file, name, dst_dir_fd=folder, follow_symlinks=False)
        if not os.path.samestat(os.stat(name, dir_fd=folder), os.fstat(source.fileno())):
            os.unlink(name, dir_fd=folder)  # the file got another one in its place meanwhile
            return None
        told = carry(source)
        os.fsync(source.fileno())
        return told
    return None


def _copy(source: IO[bytes], folder: int, name: str) -> tuple[int, str]:
    """Copy an open file into a folder."""
    source.seek(0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _HERE
    with open(os.open(name, flags, 0o644, dir_fd=folder), "wb") as target:
        told = carry(source, target)
        target.flush()
        os.fsync(target.fileno())
    return told


def carry(source: IO[bytes], target: IO[bytes] | None = None) -> tuple[int, str]:
    """Read a file to its end; its size in bytes and its SHA-256."""
    digest = hashlib.sha256()
    size = 0
    while piece := source.read(_AT_ONCE):
        digest.update(piece)
        size += len(piece)
        if target is not None:
            target.write(piece)
    return size, digest.hexdigest()
