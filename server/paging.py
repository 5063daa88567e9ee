"""Cursors: the place in a list where the next page goes on, opaque to clients."""

import base64
import binascii
from datetime import UTC, datetime

from ampcore.spec import Problem
from ampcore.spec.problems import shown
from server.deps import JOB_ID
from server.parameters import RequestInvalid
from store.tables import Job


def cursor_of(job: Job) -> str:
    """The cursor that leads on behind a job."""
    text = f"{job.created_at.isoformat()} {job.id}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """The (created_at, id) in a cursor. Raises RequestInvalid."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        moment, _, job_id = base64.urlsafe_b64decode(padded.encode("ascii")).decode().partition(" ")
        created_at = datetime.fromisoformat(moment)
        in_utc = created_at.astimezone(UTC)
    except (binascii.Error, ValueError, OverflowError):
        raise _invalid(cursor) from None
    if created_at.tzinfo is None or not JOB_ID.fullmatch(job_id):
        raise _invalid(cursor)
    return in_utc, job_id


def _invalid(cursor: str) -> RequestInvalid:
    expected = "the next_cursor of an earlier answer"
    return RequestInvalid([Problem("/query/cursor", "invalid_value", expected, shown(cursor))])
