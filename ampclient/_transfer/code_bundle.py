"""The archive of a folder of Python code: the same bytes for the same files."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ampclient._transfer.upload_source import UploadSource, zip_source

MAX_FILES: Final = 1_000
MAX_BYTES: Final = 32 * 2**20
SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "venv"})
SKIPPED_ENDINGS: Final = (".pyc", ".pyo")


def bundle_source(folder: Path) -> UploadSource:
    """The files of a folder as a zip archive, sorted by path and without times.

    Left out are names that begin with a dot (.git, .venv, .env), __pycache__, node_modules, venv
    and compiled modules. The files are read once: the archive is that of one moment.

    Raises:
        ValueError: There are no files, too many or too large ones, a link, or a special file.
        OSError: A file cannot be read.
    """
    if not folder.is_dir():
        raise ValueError(f"expected a folder with Python code, received {str(folder)!r}")
    files = sorted(_files(folder), key=lambda file: file.relative_to(folder).as_posix())
    if not files:
        raise ValueError(f"expected a folder with files, received {str(folder)!r}, which has none")
    size = sum(file.stat().st_size for file in files)
    if size > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes of code, received {size} in {folder}")
    return zip_source(folder, files, in_memory=True)


def _files(folder: Path) -> Iterator[Path]:
    count = 0
    for where, folders, names in os.walk(folder, followlinks=False, onerror=_raise):
        for name in folders:
            if not _is_skipped(name):
                _check_plain(folder, Path(where, name))
        folders[:] = [name for name in folders if not _is_skipped(name)]
        for name in names:
            if _is_skipped(name) or name.endswith(SKIPPED_ENDINGS):
                continue
            _check_plain(folder, file := Path(where, name))
            count += 1
            if count > MAX_FILES:
                raise ValueError(f"expected at most {MAX_FILES} files, received more in {folder}")
            yield file


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED_FOLDERS


def _check_plain(folder: Path, path: Path) -> None:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "a special file"
        shown = path.relative_to(folder).as_posix()
        raise ValueError(f"expected files and folders in {folder}, received {kind}: {shown!r}")


def _raise(error: OSError) -> None:
    raise error
