"""Show the uploads of a job that has ended its training, and limit those of a drain

Revision ID: 0018
Revises: 0017
Create Date: 2026-11-27 17:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0018"
down_revision: str | Sequence[str] | None = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("uploading", JSON, nullable=True))
    op.add_column("workers", sa.Column("drain_timeout_s", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("workers", "drain_timeout_s")
    op.drop_column("jobs", "uploading")
