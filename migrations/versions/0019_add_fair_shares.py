"""Add fair shares: weights and device quotas of projects, their use, turns of jobs, columns of runs

Revision ID: 0019
Revises: 0018
Create Date: 2026-11-27 17:00:00.000000
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0019"
down_revision: str | Sequence[str] | None = "0018"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
QUOTAS: tuple[tuple[str, sa.types.TypeEngine[Any]], ...] = (
    ("max_devices", sa.Integer()),
    ("max_device_hours", sa.Double()),
)


def upgrade() -> None:
    op.add_column("projects", sa.Column("weight", sa.Double(), server_default="1", nullable=False))
    for name, kind in QUOTAS:
        op.add_column("projects", sa.Column(name, kind, nullable=True))
    op.create_table(
        "project_usage",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("device_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.name"],
            name=op.f("fk_project_usage_project_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "day", name=op.f("pk_project_usage")),
    )
    op.add_column("run_throughputs", sa.Column("columns", JSON, nullable=True))
    op.add_column("jobs", sa.Column("turn_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "turn_at")
    op.drop_column("run_throughputs", "columns")
    op.drop_table("project_usage")
    for name in ("max_device_hours", "max_devices", "weight"):
        op.drop_column("projects", name)
