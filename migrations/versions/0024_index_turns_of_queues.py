"""Add the index of the order in which the jobs of a queue are submitted to a batch system

Revision ID: 0024
Revises: 0023
Create Date: 2026-11-28 14:30:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa

from migrations.online import create_index, drop_index

revision: str = "0024"
down_revision: str | Sequence[str] | None = "0023"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

INDEX = "ix_jobs_queue_turn"
QUEUED = sa.text("state = 'queued'")


def upgrade() -> None:
    create_index(
        INDEX,
        "jobs",
        ["queue", "turn_at", "id"],
        sqlite_where=QUEUED,
        postgresql_where=QUEUED,
    )


def downgrade() -> None:
    drop_index(INDEX, "jobs")
