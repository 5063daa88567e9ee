"""Datasets and their versions.

Every transaction that creates or deletes versions first calls `lock_project`, so that quotas hold
and a file that several versions share is deleted with the last of them. A job that names a version
locks that version (`lock_versions`), so that it is not deleted at the same time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, and_, delete, exists, func, select, tuple_
from sqlalchemy.orm import Session, aliased, defer
from sqlalchemy.orm.interfaces import ORMOption

from ampspec.jobs import TERMINAL
from ampspec.references.dataset_reference import VersionReference
from store.rows import insert_if_absent
from store.tables import Dataset, DatasetUpload, DatasetVersion, Job, Project, ProjectFile, new_id

STORAGE_FOLDER: Final = "datasets"
"""The folder of the storage with the files of all versions, by project and SHA-256."""

DESCRIBED: Final = "described"
UNDESCRIBED: Final = "undescribed"
INVALID: Final = "invalid"


class StorageQuotaReached(Exception):
    """The project may not store that many more bytes of datasets."""


@dataclass(frozen=True)
class Description:
    """The content of a file; only `state` if no reader supports the file."""

    state: str = UNDESCRIBED
    message: str | None = None
    kind: str | None = None
    rows: int | None = None
    options: dict[str, Any] | None = None
    splits: dict[str, Any] | None = None
    left_out: list[Any] | None = None
    columns: list[Any] | None = None
    preview: dict[str, Any] | None = None


@dataclass(frozen=True)
class StoredDataset:
    """A file that is complete in the storage folder of datasets."""

    path: str
    file_name: str
    size_bytes: int
    sha256: str


def storage_path(project: str, sha256: str, upload_id: str) -> str:
    """Where an upload is stored.

    With the upload's id, because a path that was deleted is never written again: the deletion of a
    file may happen any time after its commit.
    """
    return f"{project}/{sha256}-{upload_id}"


def lock_project(session: Session, project: str) -> int | None:
    """Lock the project until the transaction ends; returns its quota of bytes (None: no limit)."""
    statement = select(Project.max_dataset_bytes).where(Project.name == project)
    return session.scalars(statement.with_for_update(key_share=True)).one_or_none()


def used_bytes(session: Session, *projects: str) -> Mapping[str, int]:
    """The bytes of each project's datasets, unfinished uploads and files; of all without names.

    Versions that share a file count once.
    """
    files = select(Dataset.project, DatasetVersion.path, DatasetVersion.size_bytes)
    files = files.join(DatasetVersion, DatasetVersion.dataset_id == Dataset.id).distinct()
    uploads = select(DatasetUpload.project, DatasetUpload.size_bytes)
    uploads = uploads.where(DatasetUpload.number.is_(None))
    project_files = select(ProjectFile.project, ProjectFile.size_bytes)  # by their SHA-256
    bytes_by_project: dict[str, int] = {}
    for statement in (files, uploads, project_files):
        parts = statement.subquery()
        total = select(parts.c.project, func.sum(parts.c.size_bytes)).group_by(parts.c.project)
        if projects:
            total = total.where(parts.c.project.in_(projects))
        for project, size in session.execute(total):
            bytes_by_project[project] = bytes_by_project.get(project, 0) + int(size)
    return bytes_by_project


def check_quota(session: Session, project: str, more_bytes: int) -> None:
    """Lock the project. Raises StorageQuotaReached if it may not store that many more bytes."""
    quota = lock_project(session, project)
    if quota is None or more_bytes == 0:
        return
    stored_bytes = used_bytes(session, project).get(project, 0)
    if stored_bytes + more_bytes > quota:
        raise StorageQuotaReached(
            f"The project {project!r} has a quota of {quota} bytes for datasets and files; "
            f"{stored_bytes} are used, and this upload needs {more_bytes}. Delete versions of "
            "datasets (`ampctl dataset list`) or files (`ampctl file list`), or ask an admin for "
            "more."
        )


def find(session: Session, project: str, reference: VersionReference) -> DatasetVersion | None:
    """A version, or the newest one if the reference has no number; None if there is none."""
    statement = _versions(project, reference.name)
    if reference.number is not None:
        statement = statement.where(DatasetVersion.number == reference.number)
    newest = statement.order_by(DatasetVersion.number.desc()).limit(1)
    return session.scalars(newest.execution_options(populate_existing=True)).one_or_none()


def versions(
    session: Session, project: str, name: str, *, before_number: int | None, limit: int
) -> Sequence[DatasetVersion]:
    """The versions of a dataset, the newest first; only those with a number below `before_number`.

    Without columns and previews: one may have megabytes.
    """
    statement = _versions(project, name).options(*_without_content(DatasetVersion))
    if before_number is not None:
        statement = statement.where(DatasetVersion.number < before_number)
    return session.scalars(statement.order_by(DatasetVersion.number.desc()).limit(limit)).all()


def page(
    session: Session,
    project: str,
    *,
    name: str | None = None,
    after_name: str | None = None,
    limit: int,
) -> Sequence[Any]:
    """Datasets by name: those after the name `after_name`, or only the one called `name`.

    A row has the columns of the dataset, `version_count`, `size_bytes` of all its versions, and
    `newest`, the newest one without its columns and preview.
    """
    statement = (
        select(
            Dataset.id,
            Dataset.name,
            Dataset.project,
            Dataset.created_at,
            Dataset.created_by,
            func.count().label("version_count"),
            func.sum(DatasetVersion.size_bytes).label("size_bytes"),
            func.max(DatasetVersion.number).label("newest_number"),
        )
        .join(DatasetVersion, DatasetVersion.dataset_id == Dataset.id)
        .where(Dataset.project == project)
        .group_by(Dataset.id)
        .order_by(Dataset.name)
        .limit(limit)
    )
    if name is not None:
        statement = statement.where(Dataset.name == name)
    if after_name is not None:
        statement = statement.where(Dataset.name > after_name)
    page_rows = statement.subquery()
    newest = aliased(DatasetVersion, name="newest")
    is_newest = and_(
        newest.dataset_id == page_rows.c.id, newest.number == page_rows.c.newest_number
    )
    rows = select(page_rows, newest).join(newest, is_newest).order_by(page_rows.c.name)
    return session.execute(rows.options(*_without_content(newest))).all()


def names(session: Session, project: str, *, limit: int) -> Sequence[str]:
    """The names of the project's datasets, for suggestions."""
    statement = select(Dataset.name).where(Dataset.project == project).order_by(Dataset.name)
    has_versions = exists().where(DatasetVersion.dataset_id == Dataset.id)
    return session.scalars(statement.where(has_versions).limit(limit)).all()


def stored_file(session: Session, project: str, sha256: str) -> str | None:
    """The path of a stored file with these bytes, if a version of the project has one."""
    statement = (
        select(DatasetVersion.path)
        .join(Dataset, Dataset.id == DatasetVersion.dataset_id)
        .where(Dataset.project == project, DatasetVersion.sha256 == sha256)
        .limit(1)
    )
    return session.scalar(statement)


def add_version(
    session: Session,
    project: str,
    name: str,
    file: StoredDataset,
    description: Description,
    *,
    created_by: str | None,
) -> DatasetVersion:
    """Create the next version. The project must be locked."""
    values = {"project": project, "name": name, "created_by": created_by}
    row_values = {"id": new_id(), "last_number": 0, **values}
    session.execute(insert_if_absent(session, Dataset, **row_values))
    statement = select(Dataset).where(Dataset.project == project, Dataset.name == name)
    dataset = session.scalars(statement.execution_options(populate_existing=True)).one()
    dataset.last_number += 1
    version = DatasetVersion(
        dataset_id=dataset.id,
        number=dataset.last_number,
        created_by=created_by,
        **vars(file),
        **vars(description),
    )
    session.add(version)
    session.flush()
    return version


def lock_versions(session: Session, versions: Collection[tuple[str, str, int]]) -> set[Any]:
    """Lock versions, each a project, name and number, against deletion; returns those that exist.

    The lock ends with the transaction; several transactions may hold it.
    """
    key = (Dataset.project, Dataset.name, DatasetVersion.number)
    statement = (
        select(*key)
        .join(DatasetVersion, DatasetVersion.dataset_id == Dataset.id)
        .where(tuple_(*key).in_(versions))
        .order_by(*key)
        .with_for_update(read=True, of=DatasetVersion)
    )
    return {tuple(row) for row in session.execute(statement)}


def unfinished_job(
    session: Session, project: str, name: str, numbers: Collection[int]
) -> tuple[str, str, str] | None:
    """The id and name of a job that has not ended and uses one of the versions, and which one."""
    reference = Job.spec["data"]["dataset"].as_string()
    references = [str(VersionReference(name, number)) for number in numbers]
    statement = (
        select(Job.id, Job.name, reference)
        .where(Job.project == project, Job.state.not_in(TERMINAL), reference.in_(references))
        .limit(1)
    )
    row = session.execute(statement).one_or_none()
    return (row[0], row[1], row[2]) if row is not None else None


def lock_for_deletion(
    session: Session, project: str, reference: VersionReference
) -> Sequence[DatasetVersion]:
    """The version, or all versions without a number, locked; waits for jobs being submitted.

    The project must be locked.
    """
    statement = _versions(project, reference.name).order_by(DatasetVersion.number)
    if reference.number is not None:
        statement = statement.where(DatasetVersion.number == reference.number)
    statement = statement.options(*_without_content(DatasetVersion))
    statement = statement.with_for_update(of=DatasetVersion)
    return session.scalars(statement.execution_options(populate_existing=True)).all()


def delete_versions(session: Session, versions: Sequence[DatasetVersion]) -> list[str]:
    """Delete versions that are locked; returns the paths that no version uses."""
    keys = [(version.dataset_id, version.number) for version in versions]
    key_columns = tuple_(DatasetVersion.dataset_id, DatasetVersion.number)
    statement = delete(DatasetVersion).where(key_columns.in_(keys))
    session.execute(statement.execution_options(synchronize_session=False))
    paths = {version.path for version in versions}
    paths_in_use = select(DatasetVersion.path).where(DatasetVersion.path.in_(paths))
    return sorted(paths - set(session.scalars(paths_in_use)))


def _without_content(version: type[DatasetVersion]) -> tuple[ORMOption, ...]:
    """Leave out what may have megabytes; reading it is an error."""
    content = (
        version.columns,
        version.preview,
        version.options,
        version.splits,
        version.left_out,
    )
    return tuple(defer(column, raiseload=True) for column in content)


def _versions(project: str, name: str) -> Select[DatasetVersion]:
    return (
        select(DatasetVersion)
        .join(Dataset, Dataset.id == DatasetVersion.dataset_id)
        .where(Dataset.project == project, Dataset.name == name)
    )
