"""Add files that jobs name by their SHA-256: code bundles and weights

Revision ID: 0011
Revises: 0010
Create Date: 2026-11-23 20:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | Sequence[str] | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

KEY = ["project", "kind", "sha256"]


def upgrade() -> None:
    op.create_table(
        "project_files",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_project_files_project_projects")
        ),
        sa.PrimaryKeyConstraint(*KEY, name=op.f("pk_project_files")),
    )
    op.create_index(op.f("ix_project_files_path"), "project_files", ["path"])
    op.create_index(op.f("ix_project_files_last_used_at"), "project_files", ["last_used_at"])
    op.create_table(
        "job_files",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_files_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            KEY,
            [f"project_files.{name}" for name in KEY],
            name=op.f("fk_job_files_project_files"),
        ),
        sa.PrimaryKeyConstraint("job_id", "kind", "sha256", name=op.f("pk_job_files")),
    )
    op.create_index(op.f("ix_job_files_project_kind_sha256"), "job_files", KEY)


def downgrade() -> None:
    op.drop_table("job_files")
    op.drop_table("project_files")
