"""Add the downsampling levels of steps

Revision ID: 0003
Revises: 0002
Create Date: 2026-11-22 08:40:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0003"
down_revision: str | Sequence[str] | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

DEFAULTS = ["examples", "duration_s", "skipped_s"]
"""Columns that need a value in existing rows; the program sets it in new rows."""


PAYLOAD_LAST: list[tuple[str, ...]] = [
    ("seq", "examples", "duration_s", "skipped_s", "best_loss", "created_at", "marks", "payload")
]
"""SQLite reads a row from its beginning: small columns must come before large ones."""


def upgrade() -> None:
    with op.batch_alter_table("step_blocks", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("examples", sa.BigInteger(), nullable=False, server_default="0")
        )
        batch_op.add_column(
            sa.Column("duration_s", sa.Double(), nullable=False, server_default="0")
        )
        batch_op.add_column(sa.Column("skipped_s", sa.Double(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("best_loss", sa.Double(), nullable=True))
        batch_op.add_column(sa.Column("marks", sa.LargeBinary(), nullable=True))
        batch_op.create_index(
            batch_op.f("ix_step_blocks_job_id_seq"), ["job_id", "seq"], unique=False
        )
    with op.batch_alter_table(
        "step_blocks", schema=None, partial_reordering=PAYLOAD_LAST
    ) as batch_op:
        for name in DEFAULTS:
            batch_op.alter_column(name, server_default=None)
    # Last, and separately: SQLite rebuilds a table without the condition of an index.
    op.create_index(
        "ix_step_blocks_loose",
        "step_blocks",
        ["job_id", "attempt"],
        unique=False,
        sqlite_where=sa.text("marks IS NULL"),
        postgresql_where=sa.text("marks IS NULL"),
    )
    op.create_table(
        "step_levels",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("end_step", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_step_levels_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "attempt", "size", "first_step", name=op.f("pk_step_levels")
        ),
    )
    op.create_table(
        "step_points",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("end_step", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_step_points_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "first_step", name=op.f("pk_step_points")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column(
                "totals", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True
            )
        )


def downgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_column("totals")

    op.drop_table("step_points")
    op.drop_table("step_levels")
    op.drop_index("ix_step_blocks_loose", "step_blocks")
    with op.batch_alter_table("step_blocks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_step_blocks_job_id_seq"))
        batch_op.drop_column("marks")
        batch_op.drop_column("best_loss")
        batch_op.drop_column("skipped_s")
        batch_op.drop_column("duration_s")
        batch_op.drop_column("examples")
