"""Add the allocations of batch systems, and the workers that run one job

Revision ID: 0023
Revises: 0022
Create Date: 2026-11-28 10:45:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision: str | Sequence[str] | None = "0022"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)
UNFINISHED = sa.text("ended_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "allocations",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("queue", sa.String(length=64), nullable=False),
        sa.Column("engine", sa.String(length=16), nullable=False),
        sa.Column("external_id", sa.String(length=64), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("worker_message", sa.Text(), nullable=True),
        sa.Column("nodes", sa.Text(), nullable=True),
        sa.Column("expected_start_at", TIME, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("submitted_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("retry_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_allocations")),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(op.f("ix_allocations_job_id"), "allocations", ["job_id"])
    op.create_index(
        "ix_allocations_unfinished",
        "allocations",
        ["engine"],
        sqlite_where=UNFINISHED,
        postgresql_where=UNFINISHED,
    )
    op.add_column("workers", sa.Column("job_id", sa.String(length=32), nullable=True))


def downgrade() -> None:
    op.drop_column("workers", "job_id")
    op.drop_table("allocations")
