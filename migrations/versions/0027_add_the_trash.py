"""Add jobs.purge_at: until when a deleted job is in the trash

Revision ID: 0027
Revises: 0026
Create Date: 2026-11-29 10:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations.online import add_column, create_index, drop_index

revision: str = "0027"
down_revision: str | Sequence[str] | None = "0026"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

IN_TRASH = sa.text("purge_at IS NOT NULL")


def upgrade() -> None:
    add_column("jobs", sa.Column("purge_at", sa.DateTime(timezone=True), nullable=True))
    create_index(
        "ix_jobs_purge_at",
        "jobs",
        ["purge_at", "id"],
        sqlite_where=IN_TRASH,
        postgresql_where=IN_TRASH,
    )


def downgrade() -> None:
    drop_index("ix_jobs_purge_at", "jobs")
    op.drop_column("jobs", "purge_at")
