"""Add datasets, their uploads, and a quota for them

Revision ID: 0008
Revises: 0007
Create Date: 2026-11-23 16:25:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0008"
down_revision: str | Sequence[str] | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "dataset_uploads",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("file_name", sa.String(length=255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("offset_bytes", sa.BigInteger(), nullable=False),
        sa.Column(
            "parts", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False
        ),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_dataset_uploads_project_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset_uploads")),
    )
    op.create_index(
        op.f("ix_dataset_uploads_expires_at"), "dataset_uploads", ["expires_at"], unique=False
    )
    op.create_index(
        op.f("ix_dataset_uploads_project"), "dataset_uploads", ["project"], unique=False
    )

    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("last_number", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_datasets_project_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_datasets_project_name")),
    )
    op.create_table(
        "dataset_versions",
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("file_name", sa.String(length=255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("path", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("kind", sa.String(length=32), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=True),
        sa.Column(
            "columns", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True
        ),
        sa.Column(
            "preview", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
            name=op.f("fk_dataset_versions_dataset_id_datasets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dataset_id", "number", name=op.f("pk_dataset_versions")),
    )
    op.create_index(op.f("ix_dataset_versions_path"), "dataset_versions", ["path"], unique=False)
    op.create_index(
        op.f("ix_dataset_versions_sha256"), "dataset_versions", ["sha256"], unique=False
    )

    op.add_column("projects", sa.Column("max_dataset_bytes", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("projects", "max_dataset_bytes")

    op.drop_index(op.f("ix_dataset_versions_sha256"), table_name="dataset_versions")
    op.drop_index(op.f("ix_dataset_versions_path"), table_name="dataset_versions")

    op.drop_table("dataset_versions")
    op.drop_table("datasets")
    op.drop_index(op.f("ix_dataset_uploads_project"), table_name="dataset_uploads")
    op.drop_index(op.f("ix_dataset_uploads_expires_at"), table_name="dataset_uploads")

    op.drop_table("dataset_uploads")
