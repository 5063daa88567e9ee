"""List the files of a project, each with the jobs that name it."""

import base64
from typing import Final

from sqlalchemy.orm import Session

from ampspec.api.files import FilePage, ListedFile, NamingJob
from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from ampspec.references.stored_files import FileKind
from server.errors import RequestInvalid
from server.http.parameters import parse_utc
from server.row_models import from_row
from store.files import project_files
from store.files.project_files import FileKey, FilePosition

MAX_JOBS: Final = 10
"""Of those that name a file."""


def file_page(
    session: Session, project: str, kind: FileKind | None, cursor: str | None, limit: int
) -> FilePage:
    """A page of the files of a project. Raises RequestInvalid for a malformed cursor."""
    position = _position(cursor) if cursor is not None else None
    rows = project_files.page(session, project, kind=kind, position=position, limit=limit + 1)
    listed = rows[:limit]
    keys = [FileKey(project, FileKind(row.kind), row.sha256) for row in listed]
    naming = project_files.jobs_naming(session, keys, limit=MAX_JOBS)
    items = []
    for key, row in zip(keys, listed, strict=True):
        jobs = naming.get(key, [])
        naming_jobs = {
            "job_count": jobs[0].job_count if jobs else 0,
            "jobs": [NamingJob(id=job.id, name=job.name, state=job.state) for job in jobs],
        }
        items.append(from_row(ListedFile, row, naming_jobs))
    more = len(rows) > limit
    return FilePage(items=items, next_cursor=_cursor(items[-1]) if more else None)


def _cursor(file: ListedFile) -> str:
    text = f"{file.created_at.isoformat()} {file.kind} {file.sha256}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _position(cursor: str) -> FilePosition:
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")
        time, kind, sha256 = text.split(" ")
        if not sha256.isalnum():
            raise ValueError(text)
        return FilePosition(parse_utc(time), FileKind(kind), sha256)
    except ValueError:
        expected = "the next_cursor of an earlier response"
        problem = Problem("/query/cursor", "invalid_value", expected, format_value(cursor))
        raise RequestInvalid([problem]) from None
