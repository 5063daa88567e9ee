"""Show what a job is doing

Revision ID: 0032
Revises: 0031
Create Date: 2026-11-29 13:45:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0032"
down_revision: str | Sequence[str] | None = "0031"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("activity", sa.String(length=16), nullable=True))
    op.add_column("jobs", sa.Column("activity_since", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "activity_since")
    op.drop_column("jobs", "activity")
