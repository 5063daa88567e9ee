"""Restore a backup into an empty database and empty folders, once all of it was verified."""

from collections.abc import Callable
from pathlib import Path

from server import schema
from server.backup import database, files
from server.backup.manifest import (
    FILES_FOLDER,
    BackupFailed,
    Manifest,
    listed_files,
    read_verified,
)
from server.settings import Settings

Report = Callable[[str], None]


def restore_backup(settings: Settings, folder: Path, report: Report) -> Manifest:
    """Restore a backup; nothing is changed before all of it is verified.

    Args:
        settings: Name the empty database and the empty folders.
        folder: The backup.
        report: Called with lines about how far it is.

    Raises:
        BackupFailed: The backup is damaged or of a newer version, the database or a folder is not
            empty, or it cannot be written. Files that were restored are deleted.
    """
    report("Verifying the backup.")
    manifest = read_verified(folder)
    revision = manifest.database.schema_revision
    if revision > schema.HEAD:
        raise BackupFailed(
            f"The backup has the schema revision {revision} of version {manifest.version}, and "
            f"this one knows {schema.HEAD}: restore it with that version or a newer one."
        )
    database.check_empty(settings.database_url, manifest.database)
    targets = _targets(settings, manifest)
    for target in targets.values():
        if not files.is_empty(target):
            raise BackupFailed(f"{target} has files: a backup is restored only into an empty one.")
    restored: list[Path] = []
    try:
        for file in listed_files(folder):
            name, _, relative = file.path.partition("/")
            path = targets[name] / relative
            restored.append(path)
            files.copy_file(folder / FILES_FOLDER / file.path, path, relative)
        report("Restoring the database.")
        database.load(settings.database_url, folder, manifest.database)
    except BaseException:
        for path in restored:
            path.unlink(missing_ok=True)
        raise
    return manifest


def _targets(settings: Settings, manifest: Manifest) -> dict[str, Path]:
    """Where the files of each part go."""
    targets = {"datasets": settings.datasets_dir}
    if manifest.artifacts.is_included:
        artifacts = files.local_folder(settings.artifacts_url)
        if artifacts is None:
            raise BackupFailed(
                "The backup has the files of a folder, and AMPCORE_ARTIFACTS_URL names an object "
                f"store: copy {FILES_FOLDER}/artifacts of the backup there, or name a folder."
            )
        targets["artifacts"] = artifacts
    return targets
