"""Files of a project that jobs name by their SHA-256: code bundles and weights.

Whatever adds a file of a project holds `datasets.lock_project`, so that its quota holds. A job has
a row for each file that its spec names; the database refuses to delete a file that has one.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, UpdateBase, and_, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from ampspec.references.stored_files import FileKind
from store.clock import from_now, now
from store.files.datasets import check_quota, lock_project
from store.rows import insert_rows
from store.tables import Job, JobFileLink, ProjectFile, new_id

STORAGE_FOLDER: Final = "files"
"""The folder of the storage with all files, by project and SHA-256."""
UNUSED_S: Final = 86_400.0
"""A file that no job names is deleted this long after it was last used."""
TOUCH_S: Final = 3_600.0
"""A use is recorded only if the last one is older: most lookups need no write."""
BATCH: Final = 100


class FileKey(NamedTuple):
    """Which file: its project, kind and SHA-256."""

    project: str
    kind: FileKind
    sha256: str


class FilePosition(NamedTuple):
    """Where a file is in the list of its project, which begins with the newest one."""

    created_at: datetime
    kind: str
    sha256: str


def storage_path(key: FileKey) -> str:
    """Where a new upload of the file is stored; a path that was deleted is never written again."""
    return f"{key.project}/{key.sha256}-{new_id()}"


def find(session: Session, key: FileKey) -> ProjectFile | None:
    """The file with that key, or None."""
    return session.get(ProjectFile, key, populate_existing=True)


def find_used(session: Session, key: FileKey) -> ProjectFile | None:
    """The same, and record that it is used, so that it is kept for another `UNUSED_S`."""
    stale_file = (*_matches(key), ProjectFile.last_used_at < from_now(-TOUCH_S))
    if session.scalar(select(ProjectFile.kind).where(*stale_file)) is not None:
        _execute(session, update(ProjectFile).where(*stale_file).values(last_used_at=now()))
    return find(session, key)


def add(
    session: Session,
    key: FileKey,
    *,
    path: str,
    size_bytes: int,
    created_by: str | None,
    contents: list[Any] | None = None,
) -> ProjectFile:
    """Add a stored file, unless there is one; the row then has another path than `path`.

    Raises StorageQuotaReached.
    """
    lock_project(session, key.project)  # of two requests, one adds the file
    existing_file = find(session, key)
    if existing_file is not None:
        return existing_file
    check_quota(session, key.project, size_bytes)
    row = ProjectFile(
        **key._asdict(),
        path=path,
        size_bytes=size_bytes,
        created_by=created_by,
        contents=contents,
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def lock(session: Session, keys: Collection[FileKey]) -> set[FileKey]:
    """Lock files that new jobs name until the transaction ends; returns those that exist.

    Their use is recorded.
    """
    if not keys:
        return set()
    key = (ProjectFile.project, ProjectFile.kind, ProjectFile.sha256)
    statement = select(*key).where(tuple_(*key).in_(keys)).order_by(*key).with_for_update()
    locked_keys = {FileKey(row[0], FileKind(row[1]), row[2]) for row in session.execute(statement)}
    if locked_keys:
        touch = update(ProjectFile).where(tuple_(*key).in_(locked_keys))
        _execute(session, touch.values(last_used_at=now()))
    return locked_keys


def add_job_files(session: Session, job_files: Sequence[tuple[str, FileKey]]) -> None:
    """Record which files jobs name, each by the job's id. The files must be locked."""
    if job_files:
        rows = [{"job_id": job_id, **key._asdict()} for job_id, key in job_files]
        insert_rows(session, JobFileLink, *rows)


def page(
    session: Session,
    project: str,
    *,
    kind: FileKind | None = None,
    position: FilePosition | None = None,
    limit: int,
) -> Sequence[Any]:
    """The files of a project, the newest first, without contents: those after a position."""
    table = ProjectFile
    statement = select(
        *(table.kind, table.sha256, table.size_bytes),
        *(table.created_at, table.created_by, table.last_used_at),
    ).where(table.project == project)
    if kind is not None:
        statement = statement.where(table.kind == kind)
    if position is not None:
        later_name = or_(
            table.kind > position.kind,
            and_(table.kind == position.kind, table.sha256 > position.sha256),
        )
        same_time = and_(table.created_at == position.created_at, later_name)
        statement = statement.where(or_(table.created_at < position.created_at, same_time))
    order = (table.created_at.desc(), table.kind, table.sha256)
    return session.execute(statement.order_by(*order).limit(limit)).all()


def jobs_naming(
    session: Session, keys: Collection[FileKey], *, limit: int
) -> dict[FileKey, list[Row[Any]]]:
    """By file, the newest jobs that name it; each row has `job_count`, the number of all."""
    key = (JobFileLink.project, JobFileLink.kind, JobFileLink.sha256)
    order = (Job.created_at.desc(), Job.id)
    ranked_jobs = (
        select(
            *key,
            *(Job.id, Job.name, Job.state, Job.purge_at),
            func.count().over(partition_by=key).label("job_count"),
            func.row_number().over(partition_by=key, order_by=order).label("rank"),
        )
        .join(Job, Job.id == JobFileLink.job_id)
        .where(tuple_(*key).in_(keys))
        .subquery()
    )
    jobs_by_file: dict[FileKey, list[Row[Any]]] = {}
    statement = select(ranked_jobs).where(ranked_jobs.c.rank <= limit).order_by(ranked_jobs.c.rank)
    for row in session.execute(statement) if keys else ():
        jobs_by_file.setdefault(FileKey(row.project, FileKind(row.kind), row.sha256), []).append(
            row
        )
    return jobs_by_file


def lock_for_deletion(session: Session, key: FileKey) -> bool:
    """Lock a file, so that no new job can refer to it; False if there is no such file."""
    statement = select(ProjectFile.sha256).where(*_matches(key)).with_for_update()
    return session.scalar(statement) is not None


def remove(session: Session, key: FileKey) -> str:
    """Delete the row of a locked file that no job names; returns the path of its content."""
    statement = delete(ProjectFile).where(*_matches(key)).returning(ProjectFile.path)
    return session.scalars(statement.execution_options(synchronize_session=False)).one()


def remove_unused(session: Session) -> list[str]:
    """Delete the rows of files that no job names and that were not used lately.

    Returns the paths of their content, which is deleted after the commit.
    """
    is_used = exists().where(
        JobFileLink.project == ProjectFile.project,
        JobFileLink.kind == ProjectFile.kind,
        JobFileLink.sha256 == ProjectFile.sha256,
    )
    statement = (
        select(ProjectFile)
        .where(ProjectFile.last_used_at < from_now(-UNUSED_S), ~is_used)
        .order_by(ProjectFile.last_used_at)
        .limit(BATCH)
        .with_for_update(skip_locked=True)
    )
    unused = session.scalars(statement.execution_options(populate_existing=True)).all()
    for row in unused:
        _execute(session, delete(ProjectFile).where(*_matches(FileKey(*_key_of(row)))))
    return [row.path for row in unused]


def _key_of(row: ProjectFile) -> tuple[str, FileKind, str]:
    return row.project, FileKind(row.kind), row.sha256


def _matches(key: FileKey) -> tuple[Any, ...]:
    """The conditions that only the file with that key satisfies."""
    return (
        ProjectFile.project == key.project,
        ProjectFile.kind == key.kind,
        ProjectFile.sha256 == key.sha256,
    )


def _execute(session: Session, statement: UpdateBase) -> None:
    session.execute(statement.execution_options(synchronize_session=False))
