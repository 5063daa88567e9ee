"""Add the job and the step that a job explains

Revision ID: 0014
Revises: 0013
Create Date: 2026-11-23 23:40:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations.online import add_column, create_index

revision: str = "0014"
down_revision: str | Sequence[str] | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    add_column("jobs", sa.Column("explains", sa.String(length=32), nullable=True))
    add_column("jobs", sa.Column("explain_step", sa.BigInteger(), nullable=True))
    create_index(
        "ix_jobs_explains",
        "jobs",
        ["explains"],
        sqlite_where=sa.text("explains IS NOT NULL"),
        postgresql_where=sa.text("explains IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_explains", table_name="jobs")
    op.drop_column("jobs", "explain_step")
    op.drop_column("jobs", "explains")
