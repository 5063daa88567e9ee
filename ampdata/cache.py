"""Converts a file once into a folder of the cache, which later opens reuse."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VERSION: Final = 3
"""Changes with the layout of converted files."""


def converted(cache: Path, key: tuple[object, ...], convert: Callable[[Path], None]) -> Path:
    """The folder with the converted file; `convert` writes it unless it exists.

    Processes that need the same file wait for the first one. A folder appears under its final name
    only when it is complete.

    Args:
        cache: The cache folder; it is created.
        key: Everything that the result depends on; its `repr` must be deterministic.
        convert: Writes the result into an empty folder.
    """
    name = digest((VERSION, *key))[:32]
    folder = cache / name
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{name}.lock"):
        if not folder.is_dir():
            _convert(cache, name, convert)
    return folder


def digest(items: Iterable[object]) -> str:
    """A hash of many items, each with a deterministic `repr`."""
    sha = hashlib.sha256()
    for item in items:
        sha.update(repr(item).encode() + b"\n")
    return sha.hexdigest()


def _convert(cache: Path, name: str, convert: Callable[[Path], None]) -> None:
    for abandoned in cache.glob(f"{name}.tmp*"):  # of a process that was killed
        shutil.rmtree(abandoned, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{name}.tmp", dir=cache))
    try:
        convert(temporary)
        for file in temporary.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        temporary.rename(cache / name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # the kernel releases it when the process ends
        yield
