"""The checkpoints of one run in their folder: a whole one is left whenever the process ends."""

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from ampcore.checkpoint.file_format import Checkpoint
from ampcore.checkpoint.finite import nonfinite_names
from ampcore.checkpoint.reader import is_whole, load
from ampcore.checkpoint.writer import CheckpointWriter
from ampcore.errors import CheckpointFailed, UnreadableCheckpoint

_NAME: Final = re.compile(r"checkpoint-(\d+)-step-(\d+)\.safetensors")
_UNFINISHED: Final = ".checkpoint-*.unfinished"


class StoredCheckpoint(NamedTuple):
    """A checkpoint and its file."""

    file: Path
    checkpoint: Checkpoint


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; its file appears when every byte of it is on the disk.

    Raises:
        CheckpointFailed: It cannot be written, on a full disk for instance; the others stay.
    """
    writer = CheckpointWriter.from_checkpoint(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(folder)
        # Numbered in the order of saving: a run that starts anew begins at step 0 again.
        number = max((_order(file)[0] for file in _files(folder)), default=0) + 1
        file = folder / f"checkpoint-{number:06}-step-{checkpoint.manifest.step}.safetensors"
        with _unfinished(folder) as (temporary, descriptor):
            writer.write(descriptor)
            os.fsync(descriptor)
            temporary.rename(file)
        _sync(folder)
    except OSError as error:
        raise CheckpointFailed(folder, writer.size_bytes, _free_bytes(folder), error) from error
    return file


def newest(
    folder: Path, on_unreadable: Callable[[UnreadableCheckpoint], object] | None = None
) -> StoredCheckpoint | None:
    """The checkpoint that was saved last; None when there is none.

    Args:
        folder: That of the checkpoints; it need not exist.
        on_unreadable: Called for each newer one that cannot be read, or that holds non-finite
            values, as earlier versions saved them.

    Raises:
        UnreadableCheckpoint: The folder itself cannot be read.
    """
    try:
        files = _files(folder)
    except OSError as error:
        received = error.strerror or repr(error)
        expected = "a readable folder"
        raise UnreadableCheckpoint(folder, expected=expected, received=received) from error
    for file in reversed(files):
        try:
            return StoredCheckpoint(file, _load_finite(file))
        except UnreadableCheckpoint as error:
            if on_unreadable is not None:
                on_unreadable(error)
    return None


def _load_finite(file: Path) -> Checkpoint:
    found = load(file)
    if names := nonfinite_names(found.arrays):
        received = f"non-finite values in {len(names)} arrays, first in {names[0]}"
        raise UnreadableCheckpoint(file, expected="arrays of finite numbers", received=received)
    return found


def prune(folder: Path, keep: int = 2) -> None:
    """Remove every checkpoint that is older than the `keep` newest whole ones. Raises OSError."""
    files = _files(folder)
    whole = [file for file in files if is_whole(file)]
    if len(whole) > keep:
        for file in files[: files.index(whole[-keep])]:
            file.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    """The checkpoints, oldest first; none when there is no folder."""
    try:
        files = [file for file in folder.iterdir() if _NAME.fullmatch(file.name)]
    except FileNotFoundError:
        return []
    return sorted(files, key=_order)


def _order(file: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(file.name)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@contextmanager
def _unfinished(folder: Path) -> Iterator[tuple[Path, int]]:
    """A new file that is gone afterwards, unless it was given another name."""
    temporary = folder / f".checkpoint-{uuid.uuid4().hex}.unfinished"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        # Held for as long as this process lives: the others see that the file is not left over.
        with suppress(OSError):  # a network's file system may have no locks; then nobody removes it
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield temporary, descriptor
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _remove_unfinished(folder: Path) -> None:
    """Remove what processes left behind that were killed while they were saving."""
    for file in folder.glob(_UNFINISHED):
        with suppress(OSError), file.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
