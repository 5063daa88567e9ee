"""Say in the specs of jobs that the integers of their archives are pixels

Until this revision, integers in an .npz archive were divided by 255 without a word in the spec.

Revision ID: 0010
Revises: 0009
Create Date: 2026-11-23 18:00:00.000000
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from migrations.online import in_batches

revision: str = "0010"
down_revision: str | Sequence[str] | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
JOBS = sa.table("jobs", sa.column("id", sa.String), sa.column("spec", JSON))
JOBS_PER_BATCH = 500
SET_SPEC = (
    sa.update(JOBS).where(JOBS.c.id == sa.bindparam("job_id")).values(spec=sa.bindparam("changed"))
)
PIXELS = {"x": {"rescaling": "pixels"}}


def upgrade() -> None:
    in_batches("jobs", partial(_change_batch, change=_with_pixels))


def downgrade() -> None:
    in_batches("jobs", partial(_change_batch, change=_without_pixels))


def _with_pixels(data: dict[str, Any]) -> dict[str, Any]:
    return data if "preprocessing" in data else {**data, "preprocessing": PIXELS}


def _without_pixels(data: dict[str, Any]) -> dict[str, Any]:
    if data.get("preprocessing") != PIXELS:
        return data
    return {name: value for name, value in data.items() if name != "preprocessing"}


def _change_batch(
    connection: sa.Connection,
    after_id: str,
    *,
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> tuple[str | None, int]:
    """Change the specs of jobs that train on an .npz archive; damaged specs stay as they are."""
    text = sa.cast(JOBS.c.spec, sa.Text)
    archives = sa.select(JOBS.c.id, text).where(text.like('%"npz"%'), JOBS.c.id > after_id)
    rows = connection.execute(archives.order_by(JOBS.c.id).limit(JOBS_PER_BATCH)).all()
    changes = []
    for job_id, document in rows:
        try:
            spec = json.loads(document)
        except (ValueError, RecursionError):
            continue
        data = spec.get("data") if isinstance(spec, dict) else None
        if isinstance(data, dict) and data.get("kind") == "npz" and change(data) != data:
            changes.append({"job_id": job_id, "changed": {**spec, "data": change(data)}})
    if changes:
        connection.execute(SET_SPEC, changes)
    return (rows[-1][0], len(rows)) if rows else (None, 0)
