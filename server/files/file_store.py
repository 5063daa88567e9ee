"""Store uploaded files by their SHA-256, unless the project has them."""

from dataclasses import dataclass
from typing import Any, Final

from ampspec.jobs import Problem
from ampspec.references.stored_files import FileKind
from infra.storage import Storage
from server.errors import RequestInvalid
from server.files.deletion import file_not_found
from server.files.inspection import inspect_bundle
from server.files.weights_check import check_weights
from server.http.receive_body import ReceivedBody, too_large
from store.access import audit
from store.access.audit import Actor
from store.database import Database
from store.files import file_removals, project_files
from store.files.datasets import StorageQuotaReached, check_quota
from store.files.project_files import STORAGE_FOLDER, FileKey
from store.tables import ProjectFile

MAX_BYTES: Final = {FileKind.BUNDLE: 32 * 2**20, FileKind.WEIGHTS: 16 * 2**30}
"""How long a file of each kind may be."""


@dataclass(frozen=True)
class AddedFile:
    """The file that an upload has become; it may have existed before."""

    file: ProjectFile
    is_new: bool


class FileStore:
    """The files of all projects: their rows, and their content in the storage."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database, self._storage = database, storage

    def find(self, key: FileKey) -> ProjectFile | None:
        """The file with that key, whose use is recorded; None if the project does not have it."""
        with self._database.write() as session:
            return project_files.find_used(session, key)

    def get(self, key: FileKey) -> ProjectFile:
        """The same. Raises NotFound."""
        file = self.find(key)
        if file is None:
            raise file_not_found(key)
        return file

    def check_size(self, key: FileKey, size_bytes: int) -> None:
        """Raise PayloadTooLarge or StorageQuotaReached before the bytes are received."""
        if size_bytes > MAX_BYTES[key.kind]:
            raise too_large(MAX_BYTES[key.kind])
        with self._database.write() as session:
            check_quota(session, key.project, size_bytes)

    def store(self, key: FileKey, body: ReceivedBody, actor: Actor) -> AddedFile:
        """Store a complete body; deletes the local file.

        Raises RequestInvalid for other bytes than announced, or a file that is not of its kind,
        Unavailable, StorageFailed and StorageQuotaReached.
        """
        try:
            if body.sha256 != key.sha256:
                problem = Problem("/sha256", "digest_mismatch", key.sha256, body.sha256)
                raise RequestInvalid([problem])
            if key.kind is FileKind.WEIGHTS:
                check_weights(body.file)
            contents = inspect_bundle(body.file) if key.kind is FileKind.BUNDLE else None
            return self._store(key, body, contents, actor)
        finally:
            body.file.unlink(missing_ok=True)

    def _store(
        self, key: FileKey, body: ReceivedBody, contents: list[Any] | None, actor: Actor
    ) -> AddedFile:
        path = project_files.storage_path(key)
        with self._database.write() as session:  # deletes the file if this process dies
            file_removals.schedule_unless_recorded(session, STORAGE_FOLDER, path)
        self._storage.put(STORAGE_FOLDER, path, body.file, sha256=body.sha256)
        try:
            stored = self._record(key, path, body.size_bytes, contents, actor)
        except StorageQuotaReached:
            self._storage.remove(STORAGE_FOLDER, [path])
            raise
        if not stored.is_new:  # another request was faster
            self._storage.remove(STORAGE_FOLDER, [path])
        return stored

    def _record(
        self, key: FileKey, path: str, size_bytes: int, contents: list[Any] | None, actor: Actor
    ) -> AddedFile:
        with self._database.write() as session:
            row = project_files.add(
                session,
                key,
                path=path,
                size_bytes=size_bytes,
                created_by=actor.token_name,
                contents=contents,
            )
            is_new = row.path == path
            if is_new:
                details = {"kind": key.kind, "size_bytes": size_bytes}
                audit.record(
                    session, actor, "file.upload", key.sha256, project=key.project, **details
                )
        return AddedFile(row, is_new)
