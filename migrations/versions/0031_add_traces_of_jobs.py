"""Add the trace contexts of jobs

Revision ID: 0031
Revises: 0030
Create Date: 2026-11-29 13:10:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0031"
down_revision: str | Sequence[str] | None = "0030"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("trace_context", sa.String(length=55), nullable=True))
    op.add_column("jobs", sa.Column("attempt_context", sa.String(length=55), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "attempt_context")
    op.drop_column("jobs", "trace_context")
