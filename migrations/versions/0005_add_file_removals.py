"""Record files to delete

Revision ID: 0005
Revises: 0004
Create Date: 2026-11-22 22:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | Sequence[str] | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "file_removals",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("path", sa.String(length=500), nullable=True),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_file_removals")),
    )
    op.create_index(op.f("ix_file_removals_due_at"), "file_removals", ["due_at"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_file_removals_due_at"), table_name="file_removals")
    op.drop_table("file_removals")
