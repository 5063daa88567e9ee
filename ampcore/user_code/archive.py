"""Checks the archive of a bundle, and extracts it into a folder."""

import os
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ampdata.files import DataFile
from ampdata.limits import Limits
from ampdata.zip_members import Member, ZipMembers
from ampspec.errors import InvalidData

MAX_FILES: Final = 1_000
MAX_BYTES: Final = 64 * 2**20
"""Of all files together, extracted."""
MAX_RATIO: Final = 100
"""Of the extracted bytes to those of the archive; text is compressed to a tenth or so."""
RATIO_APPLIES_ABOVE_BYTES: Final = 2**20
MAX_NAME_CHARS: Final = 240
MAX_DEPTH: Final = 16
FILE_MODE: Final = 0o444
FOLDER_MODE: Final = 0o755


@dataclass(frozen=True)
class BundledFile:
    """A file of a bundle."""

    name: str
    size_bytes: int


def check(archive: Path) -> list[BundledFile]:
    """The files of a bundle, after all bytes have been read.

    Raises:
        InvalidData: It is no zip archive; it has encrypted members, links, two files of one name,
            or names that lead out of its folder; its files are too many or too large, or damaged.
    """
    with _open(archive) as (members, files):
        for member in files:
            for _ in members.blocks(member):
                pass
        return [BundledFile(member.name, member.size) for member in files]


def extract(archive: Path, folder: Path) -> None:
    """Extract a bundle into an empty folder; its files can only be read. Raises InvalidData."""
    with _open(archive) as (members, files):
        for member in files:
            target = folder.joinpath(*member.name.split("/"))
            target.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            # The folder is new and has no links, so that no name leads out of it.
            with target.open("xb") as file:
                for block in members.blocks(member):
                    file.write(block)
                os.fchmod(file.fileno(), FILE_MODE)


@contextmanager
def _open(archive: Path) -> Iterator[tuple[ZipMembers, Sequence[Member]]]:
    """The archive and its files, whose names and sizes are checked."""
    with ZipMembers(DataFile(archive, "bundle"), Limits(files=MAX_FILES)) as members:
        files = [member for member in members.members if not member.name.endswith("/")]
        _check_sizes(archive, files)
        for member in files:
            _check_name(member.name)
        _check_folders([member.name for member in members.members])
        yield members, files


def _check_sizes(archive: Path, files: Sequence[Member]) -> None:
    if not files:
        raise _invalid(None, "at least one file", "none")
    size, packed = sum(member.size for member in files), archive.stat().st_size
    if size > MAX_BYTES:
        raise _invalid(None, f"at most {MAX_BYTES:,} bytes when extracted", f"{size:,}")
    if size > RATIO_APPLIES_ABOVE_BYTES and size > MAX_RATIO * packed:
        expected = f"at most {MAX_RATIO} times the {packed:,} bytes of the archive when extracted"
        raise _invalid(None, expected, f"{size:,}")


def _check_name(name: str) -> None:
    parts = name.split("/")
    if len(name) > MAX_NAME_CHARS or len(parts) > MAX_DEPTH:
        expected = f"at most {MAX_NAME_CHARS} characters and {MAX_DEPTH} levels in a path"
        raise _invalid(name, expected, f"{len(name)} characters and {len(parts)} levels")
    if "." in parts or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise _invalid(name, "a plain path without control characters", "another path")


def _check_folders(names: Sequence[str]) -> None:
    """No file may have the name of a folder of another one."""
    files = {name for name in names if not name.endswith("/")}
    for name in names:
        parts = name.rstrip("/").split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if conflicts := files & (above | ({name.rstrip("/")} if name.endswith("/") else set())):
            raise _invalid(conflicts.pop(), "a file or a folder of this name", "both")


def _invalid(name: str | None, expected: str, received: str) -> InvalidData:
    shown = None if name is None else name[:MAX_NAME_CHARS]
    return InvalidData("bundle", shown, expected=expected, received=received)
