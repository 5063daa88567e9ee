"""Add gangs: jobs with several ranks, and the workers that run them

Revision ID: 0016
Revises: 0015
Create Date: 2026-11-24 14:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0016"
down_revision: str | Sequence[str] | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    for table in ("jobs", "attempts"):
        op.add_column(table, sa.Column("ranks", sa.Integer(), nullable=False, server_default="1"))
    op.create_table(
        "gangs",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("workers", sa.Integer(), nullable=False),
        sa.Column("devices", sa.Integer(), nullable=False),
        sa.Column("min_ranks", sa.Integer(), nullable=False),
        sa.Column("max_ranks", sa.Integer(), nullable=False),
        sa.Column("batches", sa.Integer(), nullable=False),
        sa.Column("holds", sa.Integer(), nullable=False),
        sa.Column("no_hold_before", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_gangs_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_gangs")),
    )
    op.create_table(
        "gang_members",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(length=32), nullable=False),
        sa.Column("first_rank", sa.Integer(), nullable=False),
        sa.Column("ranks", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("is_hold", sa.Boolean(), nullable=False),
        sa.Column("addresses", JSON, nullable=True),
        sa.Column("lease_expires_at", TIME, nullable=False),
        sa.Column("requested", sa.String(length=16), nullable=True),
        sa.Column("wish", sa.String(length=16), nullable=True),
        sa.Column("devices", JSON, nullable=True),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_gang_members_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "worker_id", name=op.f("pk_gang_members")),
    )
    op.create_index(
        "ix_gang_members_unfinished",
        "gang_members",
        ["worker_id"],
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("gang_members")
    op.drop_table("gangs")
    for table in ("attempts", "jobs"):
        op.drop_column(table, "ranks")
