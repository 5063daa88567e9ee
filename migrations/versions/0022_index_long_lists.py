"""Add the indexes of long lists: of jobs by any order and filter, of the audit log, of the queue

Revision ID: 0022
Revises: 0021
Create Date: 2026-11-27 16:20:00.000000
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index

revision: str = "0022"
down_revision: str | Sequence[str] | None = "0021"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

INDEXES: dict[str, tuple[str, list[Any], str | None]] = {
    "ix_jobs_changed_at_id": ("jobs", ["changed_at", "id"], None),
    "ix_jobs_project_changed_at_id": ("jobs", ["project", "changed_at", "id"], None),
    "ix_jobs_name_id": ("jobs", ["name", "id"], None),
    "ix_jobs_project_name_id": ("jobs", ["project", "name", "id"], None),
    "ix_jobs_priority_id": ("jobs", ["priority", "id"], None),
    "ix_jobs_project_priority_id": ("jobs", ["project", "priority", "id"], None),
    "ix_jobs_policy": ("jobs", ["policy"], None),
    "ix_jobs_resolved_policy": ("jobs", ["resolved_policy"], None),
    "ix_jobs_model": ("jobs", ["model"], None),
    "ix_jobs_edited_at": ("jobs", ["edited_at"], "edited_at IS NOT NULL"),
    "ix_jobs_undispatched": (
        "jobs",
        ["queue", "dispatched_at", "not_before"],
        "state = 'queued' AND ranks = 1",
    ),
    "ix_jobs_turn": ("jobs", ["project", "turn_at", "id", "queue"], "state = 'queued'"),
    "ix_jobs_waiting": ("jobs", ["queue", "not_before", "queued_at"], "state = 'queued'"),
    "ix_jobs_gangs": ("jobs", ["state"], "ranks > 1"),
    "ix_audit_action_id": ("audit", ["action", "id"], None),
    "ix_audit_token_id_id": ("audit", ["token_id", "id"], None),
}
"""The table, the columns and the condition of each index."""

NAME_PARTS = """
CREATE OR REPLACE FUNCTION ampcore_name_parts(name text, shortest integer) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(DISTINCT substr(lower(name), start, size))
    FROM generate_series(shortest, 3) AS size, generate_series(1, length(lower(name))) AS start
    WHERE start + size - 1 <= length(lower(name))
$$
"""
"""The parts of two and of three characters of a name, for the index that finds names by a part.

pg_trgm does the same for three characters, but is not installed everywhere.
"""
NAME_PARTS_INDEX = "ix_jobs_name_parts"
LABELS_INDEX = "ix_jobs_labels"


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    if is_postgresql:
        op.execute(NAME_PARTS)
    for name, (table, columns, where) in INDEXES.items():
        condition = sa.text(where) if where else None
        create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
    if is_postgresql:
        create_index(LABELS_INDEX, "jobs", ["labels"], postgresql_using="gin")
        parts = [sa.text("ampcore_name_parts(name, 2)")]
        create_index(NAME_PARTS_INDEX, "jobs", parts, postgresql_using="gin")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        drop_index(NAME_PARTS_INDEX, "jobs")
        drop_index(LABELS_INDEX, "jobs")
        op.execute("DROP FUNCTION ampcore_name_parts")
    for name, (table, _, _) in reversed(INDEXES.items()):
        drop_index(name, table)
