"""Assemble the parts of an upload into one file."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from infra.folder_store import open_regular_file, write_all
from infra.storage import FileDamaged, Storage

READ_BYTES: Final = 2**20
FILE_NAME: Final = ".assembled"
"""No uploaded file has this name: theirs do not start with a dot."""


@dataclass(frozen=True)
class Part:
    """A stored part: its name in the upload's folder, its size and SHA-256."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class AssembledFile:
    """All bytes of an upload in a local file, which must only be read."""

    path: Path
    sha256: str


def assemble(
    storage: Storage, folder: str, parts: Sequence[Part], work_folder: Path, *, check_parts: bool
) -> AssembledFile:
    """One file with the bytes of all parts; a single part is not copied if it is a local file.

    Args:
        storage: keeps the parts.
        folder: their folder in the storage.
        parts: in the order of their bytes.
        work_folder: an empty local folder for the file.
        check_parts: whether to check the SHA-256 of each part. It is not needed if the caller
            knows that of the whole file.

    Raises:
        StorageFailed, OSError: a part cannot be read, has changed, or the disk is full.
    """
    if len(parts) == 1 and (local := storage.local_file(folder, parts[0].name)) is not None:
        return AssembledFile(local, parts[0].sha256)
    target, digest = work_folder / FILE_NAME, hashlib.sha256()
    # Unbuffered: pieces are large.
    with target.open("xb", buffering=0) as file:
        for part in parts:
            _append(storage, folder, part, file, digest, check=check_parts)
    return AssembledFile(target, digest.hexdigest())


def _append(
    storage: Storage, folder: str, part: Part, file: IO[bytes], digest: Any, *, check: bool
) -> None:
    part_digest = hashlib.sha256()
    for piece in _pieces(storage, folder, part):
        write_all(file, piece)
        digest.update(piece)
        if check:
            part_digest.update(piece)
    if check and part_digest.hexdigest() != part.sha256:
        raise FileDamaged(f"The part {part.name} of an upload has changed since it was stored.")


def _pieces(storage: Storage, folder: str, part: Part) -> Iterator[bytes | memoryview]:
    """The bytes of a part. Of a local file they are in one buffer, valid until the next piece."""
    local = storage.local_file(folder, part.name)
    if local is None:
        yield from storage.read(folder, part.name, 0, part.size_bytes)
        return
    buffer, remaining_bytes = memoryview(bytearray(READ_BYTES)), part.size_bytes
    with open_regular_file(local) as source:
        while remaining_bytes > 0 and (size := source.readinto(buffer[:remaining_bytes])):  # type: ignore[attr-defined]
            remaining_bytes -= size
            yield buffer[:size]
    if remaining_bytes:
        raise FileDamaged(
            f"The part {part.name} of an upload is {remaining_bytes} bytes too short."
        )
