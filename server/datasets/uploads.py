"""Uploads: start, append, complete and delete.

Each request writes the bytes that it receives into a part of its own, so that two requests never
write the same file, on any server. Completing assembles the parts into a version.
"""

import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.orm import Session

from ampspec.jobs import Problem
from ampspec.references.dataset_reference import VersionReference
from infra.storage import Storage, StorageFailed
from server.datasets.assemble import AssembledFile, Part, assemble
from server.datasets.describe import describe
from server.errors import Conflict, NotFound, RequestInvalid
from server.http.receive_body import ReceivedBody, too_large
from store.access import audit
from store.access.audit import Actor
from store.database import Database
from store.files import dataset_uploads, datasets, file_removals
from store.files.dataset_uploads import NewUpload, folder_of
from store.files.datasets import INVALID, STORAGE_FOLDER, Description, StoredDataset
from store.tables import DatasetUpload, DatasetVersion

Describe = Callable[[Path], Description]


@dataclass(frozen=True)
class UploadKey:
    """Which upload: its project, dataset and id."""

    project: str
    name: str
    upload_id: str


@dataclass(frozen=True)
class Completed:
    """The version that an upload has become; it may have existed before."""

    version: DatasetVersion
    is_new: bool


class Uploads:
    """The uploads of one application.

    Args:
        database: has a row for each upload.
        storage: keeps the parts, and the files of versions.
        work_folder: a local folder for what is being assembled.
        max_bytes: the maximum size of a file.
        describe_file: describes the content of a complete file.
    """

    def __init__(
        self,
        database: Database,
        storage: Storage,
        work_folder: Path,
        max_bytes: int,
        describe_file: Describe = describe,
    ) -> None:
        self._database, self._storage = database, storage
        self._work_folder, self.max_bytes = work_folder, max_bytes
        self._describe = describe_file

    def check_size(self, size_bytes: int) -> None:
        """Raise PayloadTooLarge for a file that is larger than the server accepts."""
        if size_bytes > self.max_bytes:
            raise too_large(self.max_bytes)

    def start(
        self,
        session: Session,
        project: str,
        new: NewUpload,
        created_by: str | None,
        *,
        is_shared: bool = True,
    ) -> DatasetUpload:
        """Reserve the bytes, or return an unfinished upload of the same file, to continue it.

        An upload of the newest version's bytes is complete at once, unless that is invalid: another
        release may be able to read it.

        Args:
            session: of a transaction that the caller commits.
            project: whose quota has room for the bytes.
            new: what the client says about the file.
            created_by: the name of the client's token.
            is_shared: whether several clients may continue the upload. If not, its row has no
                SHA-256, by which others find it: the caller checks that of the bytes.

        Raises PayloadTooLarge, StorageQuotaReached and TooManyUploads.
        """
        self.check_size(new.size_bytes)
        newest = datasets.find(session, project, VersionReference(new.name))
        is_known = newest is not None and _is_same(newest, new)
        if not is_known and not is_shared:
            new = replace(new, sha256=None)
        if not is_known and (begun := dataset_uploads.unfinished(session, project, new)):
            return begun
        row = dataset_uploads.start(session, project, new, created_by, reserve=not is_known)
        if newest is not None and is_known:
            dataset_uploads.mark_complete(session, row.id, newest.number)
            session.refresh(row)
        return row

    def get(self, key: UploadKey) -> DatasetUpload:
        """An upload. Raises NotFound."""
        with self._database.read() as session:
            return _get_upload(session, key)

    def check_offset(self, key: UploadKey, offset_bytes: int) -> DatasetUpload:
        """The upload, if its next byte is at that offset. Raises NotFound and Conflict."""
        upload = self.get(key)
        if upload.number is not None:
            raise Conflict("The upload is complete already.")
        if upload.offset_bytes != offset_bytes:
            raise _other_offset(upload, offset_bytes)
        if len(upload.parts) >= dataset_uploads.MAX_PARTS:
            raise Conflict(
                f"The upload has {dataset_uploads.MAX_PARTS} parts, the maximum. Delete it, and "
                "send more bytes with each request."
            )
        return upload

    def append(self, key: UploadKey, offset_bytes: int, body: ReceivedBody) -> DatasetUpload:
        """Store the bytes as the part at that offset; deletes the local file.

        Raises StorageFailed, NotFound, and Conflict if another request was faster.
        """
        try:
            if body.size_bytes > 0:
                self._add_part(key, offset_bytes, body)
        finally:
            body.file.unlink(missing_ok=True)
        return self.get(key)

    def _add_part(self, key: UploadKey, offset_bytes: int, body: ReceivedBody) -> None:
        folder = folder_of(key.upload_id)
        # A name of its own: another request for the same offset may be writing at this moment.
        name = f"{offset_bytes:016d}-{secrets.token_hex(6)}"
        self._storage.put(folder, name, body.file, sha256=body.sha256)
        part = (name, body.size_bytes, body.sha256)
        with self._database.write() as session:
            added = dataset_uploads.add_part(session, key.upload_id, offset_bytes, part)
            upload = None if added else _get_upload(session, key)
        if upload is not None:
            self._storage.remove(folder, [name])
            raise _other_offset(upload, offset_bytes)

    def complete(self, key: UploadKey, actor: Actor) -> Completed:
        """Create a version from an upload whose bytes have all arrived; a repeat returns it.

        Raises NotFound, Conflict while bytes are missing, RequestInvalid if the SHA-256 differs
        (the upload is deleted then), and StorageFailed.
        """
        upload = self.get(key)
        if upload.number is None:
            try:
                return self._complete(upload, key, actor)
            except StorageFailed:
                upload = self.get(key)  # perhaps another request has completed it, and removed it
                if upload.number is None:
                    raise
        with self._database.read() as session:
            return Completed(_version(session, key, upload.number), is_new=False)

    def delete(self, key: UploadKey) -> None:
        """Delete an upload; the version that it has become stays. Raises NotFound."""
        with self._database.write() as session:
            _get_upload(session, key)
            dataset_uploads.remove(session, key.upload_id)
            file_removals.schedule_in_background(session, folder_of(key.upload_id))

    def discard(self, key: UploadKey) -> None:
        """Delete an upload, if it exists."""
        with suppress(NotFound):
            self.delete(key)

    def _complete(self, upload: DatasetUpload, key: UploadKey, actor: Actor) -> Completed:
        if upload.offset_bytes < upload.size_bytes:
            raise Conflict(
                f"Expected all {upload.size_bytes} bytes of the file, received "
                f"{upload.offset_bytes} so far. Send the rest with PATCH."
            )
        try:
            self._work_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=self._work_folder, prefix="assemble-") as folder:
                return self._complete_in(Path(folder), upload, key, actor)
        except OSError as error:  # the disk is full
            raise StorageFailed(f"an upload cannot be completed: {error}") from error

    def _complete_in(
        self, folder: Path, upload: DatasetUpload, key: UploadKey, actor: Actor
    ) -> Completed:
        file = self._assemble(upload, folder)
        self._check_digest(upload, key, file)
        link = folder / upload.file_name  # readers look at the ending of the name
        _link(file.path, link)
        description = self._describe(link)
        while True:
            stored = self._store(upload, file)
            completed = self._create_version(upload, key, actor, stored, description)
            if completed is not None:
                return completed

    def _assemble(self, upload: DatasetUpload, folder: Path) -> AssembledFile:
        parts = [Part(*part) for part in upload.parts]
        check_parts = upload.sha256 is None
        stored = folder_of(upload.id)
        return assemble(self._storage, stored, parts, folder, check_parts=check_parts)

    def _check_digest(self, upload: DatasetUpload, key: UploadKey, file: AssembledFile) -> None:
        try:
            check_digest(upload.sha256, file.sha256)
        except RequestInvalid:
            self.delete(key)
            raise

    def _store(self, upload: DatasetUpload, file: AssembledFile) -> StoredDataset:
        """Store the file, unless the project has stored the same bytes before."""
        with self._database.write() as session:
            path = datasets.stored_file(session, upload.project, file.sha256)
            is_stored = path is not None
            path = path or datasets.storage_path(upload.project, file.sha256, upload.id)
            if not is_stored:
                file_removals.schedule_unless_recorded(session, STORAGE_FOLDER, path)
        if not is_stored:
            self._storage.put(STORAGE_FOLDER, path, file.path, sha256=file.sha256)
        return StoredDataset(path, upload.file_name, upload.size_bytes, file.sha256)

    def _create_version(
        self,
        upload: DatasetUpload,
        key: UploadKey,
        actor: Actor,
        file: StoredDataset,
        description: Description,
    ) -> Completed | None:
        """Create the version; None if its file must be stored again, because it was deleted."""
        own_path = datasets.storage_path(upload.project, file.sha256, upload.id)
        with self._database.write() as session:
            datasets.lock_project(session, key.project)
            current = _get_upload(session, key)
            if current.number is not None:  # another request was faster
                return Completed(_version(session, key, current.number), is_new=False)
            newest = datasets.find(session, key.project, VersionReference(key.name))
            is_new = newest is None or newest.sha256 != file.sha256
            if newest is None or is_new:
                path = datasets.stored_file(session, key.project, file.sha256)
                if path is None and file.path != own_path:
                    return None
                values = vars(file) | {"path": path or own_path}
                newest = datasets.add_version(
                    session,
                    key.project,
                    key.name,
                    StoredDataset(**values),
                    description,
                    created_by=upload.created_by,
                )
                _audit_upload(session, actor, key, newest)
            dataset_uploads.mark_complete(session, upload.id, newest.number)
            file_removals.schedule_in_background(session, folder_of(upload.id))
        return Completed(newest, is_new)


def check_digest(expected: str | None, received: str) -> None:
    """Raise RequestInvalid if the bytes have another SHA-256 than the client said, if it did."""
    if expected not in (None, received):
        raise RequestInvalid([Problem("/sha256", "digest_mismatch", str(expected), received)])


def _link(file: Path, name: Path) -> None:
    """Give a file a second name, across file systems, too."""
    try:
        os.link(file, name)
    except OSError:  # another file system, or one without hard links
        name.symlink_to(file)


def _audit_upload(session: Session, actor: Actor, key: UploadKey, version: DatasetVersion) -> None:
    reference = str(VersionReference(key.name, version.number))
    details = {"size_bytes": version.size_bytes, "sha256": version.sha256}
    audit.record(session, actor, "dataset.upload", reference, project=key.project, **details)


def _is_same(version: DatasetVersion, new: NewUpload) -> bool:
    is_valid = version.state != INVALID
    return is_valid and (version.sha256, version.size_bytes) == (new.sha256, new.size_bytes)


def _get_upload(session: Session, key: UploadKey) -> DatasetUpload:
    upload = dataset_uploads.get(session, key.project, key.name, key.upload_id)
    if upload is None:
        raise NotFound(
            f"There is no upload {key.upload_id[:40]!r} of the dataset {key.name!r}; it may have "
            "expired."
        )
    return upload


def _version(session: Session, key: UploadKey, number: int) -> DatasetVersion:
    version = datasets.find(session, key.project, VersionReference(key.name, number))
    if version is None:
        raise NotFound(f"The upload became version {number}, which was deleted since.")
    return version


def _other_offset(upload: DatasetUpload, received: int) -> Conflict:
    return Conflict(
        f"Expected Upload-Offset: {upload.offset_bytes}, received {received}: another request may "
        "have sent these bytes. Continue at the expected offset."
    )
