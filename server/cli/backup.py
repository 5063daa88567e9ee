"""`ampserver backup` and `ampserver restore`: the whole service in a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampspec.documents.text import plural
from server.cli.terminal import fail, read_settings

if TYPE_CHECKING:
    from server.backup.manifest import FilesCopy

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of the backup.", show_default=False)
]


def backup(folder: Folder) -> None:
    """Back up the database and the files into a new folder, while the service runs."""
    from server.backup.backup import make_backup
    from server.backup.manifest import BackupFailed

    try:
        manifest = make_backup(read_settings(), folder, _report)
    except (BackupFailed, OSError) as error:
        fail(error)
    rows = manifest.database.rows
    typer.echo(f"Database: {manifest.database.kind}, {plural(rows['jobs'], 'job')}.")
    typer.echo(f"Artifacts: {_copied(manifest.artifacts)}.")
    typer.echo(f"Data sets of the operator: {_copied(manifest.datasets)}.")
    if manifest.artifacts.missing:
        typer.echo(
            f"Not in the backup: {plural(manifest.artifacts.missing, 'file')} of the database, "
            "deleted while it was made, as outdated checkpoints are, or missing in the storage, "
            "too (`ampserver doctor`).",
            err=True,
        )
    typer.echo(f"The backup {folder} is complete.")


def restore(folder: Folder) -> None:
    """Restore a backup into an empty database and empty folders, once all of it was verified."""
    from server.backup.manifest import BackupFailed
    from server.backup.restore import restore_backup
    from server.schema import HEAD

    try:
        manifest = restore_backup(read_settings(), folder, _report)
    except (BackupFailed, OSError) as error:
        fail(error)
    rows = manifest.database.rows
    typer.echo(
        f"Restored {plural(rows['jobs'], 'job')} of {manifest.created_at:%Y-%m-%d %H:%M} UTC."
    )
    if not manifest.artifacts.is_included:
        typer.echo(f"Restore the artifacts, too: they were in {manifest.artifacts.source}.")
    if manifest.database.schema_revision != HEAD:
        typer.echo("Run `ampserver migrate` before you start a server: the backup is older.")


def _report(line: str) -> None:
    typer.echo(line, err=True)


def _copied(copy: "FilesCopy") -> str:
    if not copy.is_included:
        return f"not included, copy them yourself: {copy.source}"
    return f"{plural(copy.count, 'file')}, {copy.size_bytes:,} bytes"
