"""The checkpoint folder of a run: a complete checkpoint survives a crash at any time."""

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
from ampspec.errors import CheckpointFailed, UnreadableCheckpoint

_NAME: Final = re.compile(r"checkpoint-(\d+)-step-(\d+)\.safetensors")
_UNFINISHED: Final = ".checkpoint-*.unfinished"


class StoredCheckpoint(NamedTuple):
    """A checkpoint and its file."""

    file: Path
    checkpoint: Checkpoint


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; its file appears once all its bytes are on disk.

    Raises:
        CheckpointFailed: It cannot be written, for example on a full disk; the others stay.
    """
    writer = CheckpointWriter.from_checkpoint(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(folder)
        # Numbered in the order of saving: a restarted run begins at step 0 again.
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
    folder: Path,
    on_unreadable: Callable[[UnreadableCheckpoint], object] | None = None,
    max_step: int | None = None,
    *,
    mapped: bool = False,
) -> StoredCheckpoint | None:
    """The last saved checkpoint; None if there is none.

    Args:
        folder: The checkpoint folder; it need not exist.
        on_unreadable: Called for each newer one that cannot be read, or that holds non-finite
            values, as earlier versions saved them.
        max_step: Only those with at most so many completed steps; None: all.
        mapped: Map large arrays into memory: see `load`.

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
        if max_step is not None and _order(file)[1] > max_step:
            continue
        try:
            return StoredCheckpoint(file, _load_finite(file, mapped=mapped))
        except UnreadableCheckpoint as error:
            if on_unreadable is not None:
                on_unreadable(error)
    return None


def _load_finite(file: Path, *, mapped: bool) -> Checkpoint:
    checkpoint = load(file, mapped=mapped)
    if names := nonfinite_names(checkpoint.arrays):
        received = f"non-finite values in {len(names)} arrays, first in {names[0]}"
        raise UnreadableCheckpoint(file, expected="arrays of finite numbers", received=received)
    return checkpoint


def prune(folder: Path, keep: int = 2) -> None:
    """Remove all checkpoints but the `keep` newest complete ones. Raises OSError."""
    files = _files(folder)
    whole = [file for file in files if is_whole(file)]
    if len(whole) > keep:
        for file in files[: files.index(whole[-keep])]:
            file.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    """The checkpoints, oldest first; empty if the folder does not exist."""
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
    """A new temporary file, which is removed at the end unless it was renamed."""
    temporary = folder / f".checkpoint-{uuid.uuid4().hex}.unfinished"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        # The lock is held while this process lives: others see that the file is in use.
        with suppress(
            OSError
        ):  # a network file system may not support locks; then the file is never removed
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield temporary, descriptor
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _remove_unfinished(folder: Path) -> None:
    """Remove temporary files of processes that were killed while saving."""
    for file in folder.glob(_UNFINISHED):
        with suppress(OSError), file.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Sync the directory entries of a folder to disk."""
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
