"""Add the retention rules of projects

Revision ID: 0028
Revises: 0027
Create Date: 2026-11-29 10:30:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0028"
down_revision: str | Sequence[str] | None = "0027"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "project_retention",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("rules", JSON, nullable=False),
        sa.Column("changed_at", TIME, nullable=False),
        sa.Column("changed_by", sa.String(length=200), nullable=True),
        sa.Column("next_run_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.name"],
            name=op.f("fk_project_retention_project_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_project_retention")),
    )


def downgrade() -> None:
    op.drop_table("project_retention")
