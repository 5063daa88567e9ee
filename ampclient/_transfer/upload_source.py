"""The bytes of an upload: a file, or a folder as a zip archive that is never written to disk.

An archive is computed twice, first for its size and SHA-256, then piece by piece while it is sent.
Both are equal, because names are sorted, nothing is compressed, and times are left out.
"""

import hashlib
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

READ_BYTES: Final = 2**20
ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can have."""
FILE_MODE: Final = (stat.S_IFREG | 0o644) << 16


@dataclass(frozen=True)
class Segment:
    """A part of the upload: some bytes, or a part of a file."""

    size_bytes: int
    content: bytes = b""
    file: Path | None = None
    offset: int = 0
    """Where the part begins in the file."""

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Its bytes from `start` to before `end`. Raises OSError if the file has become shorter."""
        if self.file is None:
            yield self.content[start:end]
            return
        with self.file.open("rb") as file:
            file.seek(self.offset + start)
            remaining = end - start
            while remaining > 0:
                piece = file.read(min(READ_BYTES, remaining))
                if not piece:
                    raise OSError(f"{self.file} has become shorter during its upload")
                remaining -= len(piece)
                yield piece


@dataclass(frozen=True)
class UploadSource:
    """The bytes to upload, and the name of the file that they make."""

    file_name: str
    segments: Sequence[Segment]

    @property
    def size_bytes(self) -> int:
        """The number of all bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`, in pieces. Raises OSError."""
        first = 0
        for segment in self.segments:
            last = first + segment.size_bytes
            if start < last and first < end:
                yield from segment.read(max(start - first, 0), min(end, last) - first)
            first = last

    def read_reporting(
        self, start: int, end: int, on_read: Callable[[int], object]
    ) -> Iterator[bytes]:
        """The same; `on_read` gets the offset after each piece, once the next one is wanted."""
        offset = start
        for piece in self.read(start, end):
            yield piece
            offset += len(piece)
            on_read(offset)

    def sha256(self) -> str:
        """The SHA-256 of all bytes. Raises OSError."""
        digest = hashlib.sha256()
        for piece in self.read(0, self.size_bytes):
            digest.update(piece)
        return digest.hexdigest()


def open_source(path: Path) -> UploadSource:
    """The source for a file or folder. Raises OSError, and ValueError for an unsuitable folder."""
    if path.is_dir():
        content = list_folder(path)
        return zip_source(path, content.files, content.empty_folders)
    if not path.is_file():
        raise FileNotFoundError(2, "expected a file or a folder", str(path))
    return file_source(path)


def file_source(path: Path) -> UploadSource:
    """The source for a file. Raises OSError."""
    return UploadSource(path.name, [Segment(path.stat().st_size, file=path)])


def zip_source(
    folder: Path,
    files: Sequence[Path],
    empty_folders: Sequence[Path] = (),
    *,
    in_memory: bool = False,
) -> UploadSource:
    """The archive of some files below a folder, in this order.

    With `in_memory` the files are read once: what is changed later is not in the archive.

    Raises OSError, and ValueError without files or for a name that is not in UTF-8.
    """
    recorder = _Recorder()
    with zipfile.ZipFile(recorder, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for file in files:
            _check_utf8(file)
            entry = zipfile.ZipInfo(_name_in(folder, file), ZIP_TIME)
            entry.external_attr = FILE_MODE
            entry.create_system = 3  # Unix, on every system: the archive must be the same
            entry.file_size = file.stat().st_size
            with archive.open(entry, "w") as target:
                recorder.file = None if in_memory else file
                for piece in Segment(entry.file_size, file=file).read(0, entry.file_size):
                    target.write(piece)
                recorder.file = None
        for empty in empty_folders:
            _check_utf8(empty)
            archive.writestr(zipfile.ZipInfo(f"{_name_in(folder, empty)}/", ZIP_TIME), b"")
    if not files:
        raise ValueError(f"expected a folder with files, received {str(folder)!r}, which has none")
    return UploadSource(f"{typed_name(folder)}.zip", recorder.segments)


def typed_name(path: Path) -> str:
    """The last part of a path as it was typed; where a link leads does not matter."""
    return Path(os.path.abspath(path)).name


@dataclass(frozen=True)
class FolderContent:
    """What of a folder is uploaded.

    Attributes:
        files: Regular files, sorted by path, and those to which links lead; pipes and devices are
            left out.
        empty_folders: Folders with nothing in them; they may be classes without pictures.
        links: The number of links that were followed.
    """

    files: Sequence[Path]
    empty_folders: Sequence[Path]
    links: int


def list_folder(folder: Path) -> FolderContent:
    """The files of a folder. Raises OSError, and ValueError for a link that leads nowhere."""
    files, empty, links = [], [], 0
    root = folder.resolve()
    pending = [(folder, frozenset(map(str, (root, *root.parents))))]
    while pending:
        where, around = pending.pop()
        with os.scandir(where) as entries:
            paths = [where / entry.name for entry in entries]
        if not paths:
            empty.append(where)
        for path in paths:
            links += path.is_symlink()
            real = os.path.realpath(path)
            if path.is_dir() and real not in around:
                pending.append((path, around | {real}))
            elif path.is_file():
                files.append(path)
            elif path.is_symlink():
                raise ValueError(
                    f"expected links to files or other folders, received {str(path)!r}, a link to "
                    f"{os.readlink(path)!r}"
                )

    def in_order(paths: list[Path]) -> list[Path]:
        return sorted(paths, key=lambda path: _name_in(folder, path))

    return FolderContent(in_order(files), in_order(empty), links)


def _name_in(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _check_utf8(file: Path) -> None:
    try:
        str(file).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"expected file names in UTF-8, received {str(file)!a}") from None


class _Recorder:
    """The file that zipfile writes to: keeps headers, and refers to the files for their content."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.file: Path | None = None
        """The file whose content is being written; None for headers."""

    def write(self, content: Any) -> int:
        """Record bytes, as a segment of their own or as a continuation of the last one."""
        size, last = len(content), self.segments[-1] if self.segments else None
        if self.file is None:
            self.segments.append(Segment(size, bytes(content)))
        elif last is not None and last.file is self.file:
            self.segments[-1] = Segment(last.size_bytes + size, file=self.file)
        else:
            self.segments.append(Segment(size, file=self.file))
        return size

    def flush(self) -> None:
        """Nothing is buffered."""
