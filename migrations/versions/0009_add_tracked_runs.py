"""Add tracked runs: where a job runs, attempts without a worker, throughput of a run

Revision ID: 0009
Revises: 0008
Create Date: 2026-11-23 16:30:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0009"
down_revision: str | Sequence[str] | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "jobs",
        sa.Column("source", sa.String(length=16), nullable=False, server_default="submitted"),
    )
    # SQLite copies the table, which has one row for each attempt.
    with op.batch_alter_table("attempts") as attempts:
        attempts.alter_column("worker_id", existing_type=sa.String(length=32), nullable=True)
    op.create_table(
        "run_throughputs",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column(
            "histogram", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
            name=op.f("fk_run_throughputs_job_id_jobs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_run_throughputs")),
    )


def downgrade() -> None:
    op.drop_table("run_throughputs")
    # An earlier version would wait for the workers of tracked runs.
    op.execute("DELETE FROM jobs WHERE source = 'tracked'")
    with op.batch_alter_table("attempts") as attempts:
        attempts.alter_column("worker_id", existing_type=sa.String(length=32), nullable=False)
    op.drop_column("jobs", "source")
