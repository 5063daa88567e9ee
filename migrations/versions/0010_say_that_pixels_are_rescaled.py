"""Say in the specs of jobs that the integers of their archives are pixels

Until this revision, integers in an .npz archive were divided by 255 without a word in the spec.

Revision ID: 0010
Revises: 0009
Create Date: 2026-11-23 18:00:00.000000
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0010"
down_revision: str | Sequence[str] | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
JOBS = sa.table("jobs", sa.column("id", sa.String), sa.column("spec", JSON))
JOBS_PER_BATCH = 500
PIXELS = {"x": {"rescaling": "pixels"}}


def upgrade() -> None:
    for job_id, spec in _jobs_with_archives():
        data = spec["data"]
        if "preprocessing" not in data:
            _store(job_id, {**spec, "data": {**data, "preprocessing": PIXELS}})


def downgrade() -> None:
    for job_id, spec in _jobs_with_archives():
        data = dict(spec["data"])
        if data.pop("preprocessing", None) == PIXELS:
            _store(job_id, {**spec, "data": data})


def _jobs_with_archives() -> Iterator[tuple[str, dict[str, Any]]]:
    """The ids and specs of jobs that train on an .npz archive; damaged specs stay as they are."""
    text = sa.cast(JOBS.c.spec, sa.Text)
    archives = sa.select(JOBS.c.id, text).where(text.like('%"npz"%')).order_by(JOBS.c.id)
    after = ""
    while rows := _first_rows(archives.where(JOBS.c.id > after)):
        for job_id, document in rows:
            try:
                spec = json.loads(document)
            except (ValueError, RecursionError):
                continue
            data = spec.get("data") if isinstance(spec, dict) else None
            if isinstance(data, dict) and data.get("kind") == "npz":
                yield job_id, spec
        after = rows[-1][0]


def _first_rows(statement: sa.Select[Any]) -> Sequence[Any]:
    return op.get_bind().execute(statement.limit(JOBS_PER_BATCH)).all()


def _store(job_id: str, spec: dict[str, Any]) -> None:
    op.get_bind().execute(sa.update(JOBS).where(JOBS.c.id == job_id).values(spec=spec))
