"""Add how dataset versions are read: options, splits, and what is left out

Revision ID: 0017
Revises: 0016
Create Date: 2026-11-27 09:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0017"
down_revision: str | Sequence[str] | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
COLUMNS = ("options", "splits", "left_out")


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("dataset_versions", sa.Column(column, JSON, nullable=True))


def downgrade() -> None:
    for column in reversed(COLUMNS):
        op.drop_column("dataset_versions", column)
