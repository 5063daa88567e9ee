"""The manifest of a backup: what it has, with sizes and SHA-256, and of which version it is.

A backup is a folder with the database, the files, `files.jsonl` with a line for each of them, and
`manifest.json`, which is written last: without it, the backup was not completed.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FORMAT: Final = 1
MANIFEST_FILE: Final = "manifest.json"
LIST_FILE: Final = "files.jsonl"
FILES_FOLDER: Final = "files"
READ_BYTES: Final = 2**20


class BackupFailed(Exception):
    """A backup cannot be made or restored; the message says why, and what to do."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class StoredFile(_Part):
    """A file of a backup; `path` is relative to its folder, with slashes."""

    path: str
    size_bytes: int
    sha256: str


class DatabaseCopy(_Part):
    """The copy of a database, and the numbers of rows of some tables in it."""

    kind: Literal["sqlite", "postgresql"]
    file: StoredFile
    schema_revision: str
    rows: dict[str, int]


class FilesCopy(_Part):
    """The copy of a folder; one of another kind of storage is not included."""

    source: str
    """For a person who restores: where the files were."""
    is_included: bool
    count: int = 0
    size_bytes: int = 0
    missing: int = 0
    """Artifacts that the database names, and that were deleted while the backup was made."""


class Manifest(_Part):
    """The content of `manifest.json`."""

    format: int = FORMAT
    version: str
    """Of ampcore."""
    created_at: datetime
    database: DatabaseCopy
    artifacts: FilesCopy
    datasets: FilesCopy
    """The files that an operator has placed in the data folder."""
    list_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """The SHA-256 of `files.jsonl`."""


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, the last file of a backup."""
    part = folder / f"{MANIFEST_FILE}.part"
    part.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    part.rename(folder / MANIFEST_FILE)


def read_verified(folder: Path) -> Manifest:
    """The manifest of a backup, once all of its files were read and have the right SHA-256.

    Raises:
        BackupFailed: There is none, it is of a newer version, or a file is missing or damaged.
    """
    try:
        text = (folder / MANIFEST_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BackupFailed(
            f"{folder} has no {MANIFEST_FILE}: it is no backup, or one that was not completed."
        ) from None
    document = _parsed(folder, text)
    _check(folder, document.database.file)
    digest = sha256_of(folder / LIST_FILE) if (folder / LIST_FILE).is_file() else None
    if digest != document.list_sha256:
        raise BackupFailed(f"{folder / LIST_FILE} is missing or damaged: use another backup.")
    for file in listed_files(folder):
        _check(folder / FILES_FOLDER, file)
    return document


def _parsed(folder: Path, text: str) -> Manifest:
    try:
        number = json.loads(text).get("format")
        if number != FORMAT:
            raise BackupFailed(
                f"{folder / MANIFEST_FILE} has the format {number}, expected {FORMAT}: restore it "
                "with the version of ampserver that made it."
            )
        return Manifest.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        raise BackupFailed(f"{folder / MANIFEST_FILE} cannot be read: {reason}") from None


def listed_files(folder: Path) -> Iterator[StoredFile]:
    """The files of `files.jsonl`; their paths start with `artifacts/` or `datasets/`."""
    with (folder / LIST_FILE).open(encoding="utf-8") as lines:
        for line in lines:
            yield StoredFile.model_validate_json(line)


def _check(folder: Path, file: StoredFile) -> None:
    path = folder / file.path
    if ".." in Path(file.path).parts or Path(file.path).is_absolute():
        raise BackupFailed(f"{file.path!r} leaves the folder of the backup.")
    if not path.is_file():
        raise BackupFailed(f"{path} is missing: use another backup.")
    if path.stat().st_size != file.size_bytes or sha256_of(path) != file.sha256:
        raise BackupFailed(f"{path} is damaged, its SHA-256 is another: use another backup.")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
