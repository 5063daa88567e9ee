"""Make a backup: first the database in one snapshot, then the files that it names."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

import ampspec
from server.backup import database, files
from server.backup.manifest import (
    FILES_FOLDER,
    LIST_FILE,
    BackupFailed,
    FilesCopy,
    Manifest,
    sha256_of,
    write_manifest,
)
from server.settings import Settings
from store.tables import Artifact

Report = Callable[[str], None]
OWNER_ONLY = 0o700


def make_backup(settings: Settings, folder: Path, report: Report) -> Manifest:
    """Back up the service into a new or empty folder, while it runs.

    Args:
        settings: Of the service.
        folder: Where the backup is written.
        report: Called with lines about how far it is.

    Raises:
        BackupFailed: The folder has files, or something cannot be copied. What was written is
            deleted.
        OSError: The folder cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupFailed(f"{folder} exists and is not empty: name a new folder.")
    sources = [files.local_folder(settings.artifacts_url), settings.datasets_dir]
    if any(source in (folder.absolute(), *folder.absolute().parents) for source in sources):
        raise BackupFailed(f"{folder} lies in a folder that is backed up: name another one.")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True, mode=OWNER_ONLY)
    try:
        return _write(settings, folder, report)
    except BaseException:
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if is_new:
            folder.rmdir()
        raise


def _write(settings: Settings, folder: Path, report: Report) -> Manifest:
    report("Copying the database.")
    named_files: set[str] = set()

    def read_names(connection: Connection) -> None:
        rows = connection.execute(sa.select(Artifact.job_id, Artifact.path))
        named_files.update(f"{row.job_id}/{row.path}" for row in rows)

    database_copy = database.dump(settings.database_url, folder, read_names)
    with (folder / LIST_FILE).open("x", encoding="utf-8") as listed:
        artifacts = FilesCopy(source=settings.artifacts_url, is_included=False)
        if (source := files.local_folder(settings.artifacts_url)) is not None:
            report(f"Copying the files in {source}.")
            artifacts = files.copy_folder(source, folder / FILES_FOLDER, "artifacts", listed)
            copied = folder / FILES_FOLDER / "artifacts"
            missing = sum(not (copied / name).is_file() for name in named_files)
            artifacts = artifacts.model_copy(update={"missing": missing})
        report(f"Copying the files in {settings.datasets_dir}.")
        target = folder / FILES_FOLDER
        datasets = files.copy_folder(settings.datasets_dir, target, "datasets", listed)
    manifest = Manifest(
        version=ampspec.__version__,
        created_at=datetime.now(UTC),
        database=database_copy,
        artifacts=artifacts,
        datasets=datasets,
        list_sha256=sha256_of(folder / LIST_FILE),
    )
    write_manifest(folder, manifest)
    return manifest
