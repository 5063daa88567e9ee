"""Add the rights of tokens, which their roles do not include, and the contents of bundles

Revision ID: 0012
Revises: 0011
Create Date: 2026-11-23 20:30:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0012"
down_revision: str | Sequence[str] | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")


def upgrade() -> None:
    op.add_column("tokens", sa.Column("rights", JSON, nullable=False, server_default="[]"))
    op.add_column("project_files", sa.Column("contents", JSON, nullable=True))


def downgrade() -> None:
    op.drop_column("project_files", "contents")
    op.drop_column("tokens", "rights")
