"""Add the model registry: models, versions, aliases and their history

Revision ID: 0025
Revises: 0024
Create Date: 2026-11-28 18:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0025"
down_revision: str | Sequence[str] | None = "0024"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)
DOCUMENT = sa.JSON(none_as_null=True).with_variant(
    postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
)


def upgrade() -> None:
    op.create_table(
        "registered_models",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("last_number", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("tags", DOCUMENT, nullable=False),
        sa.Column("gates", DOCUMENT, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_registered_models_project_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registered_models")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_registered_models_project_name")),
    )
    op.create_table(
        "model_versions",
        sa.Column("model_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=True),
        sa.Column("job_name", sa.String(length=200), nullable=False),
        sa.Column("files", DOCUMENT, nullable=False),
        sa.Column("lineage", DOCUMENT, nullable=False),
        sa.Column("metrics", DOCUMENT, nullable=False),
        sa.Column("signature", DOCUMENT, nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("tags", DOCUMENT, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("deleted_at", TIME, nullable=True),
        sa.Column("deleted_by", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_model_versions_job_id_jobs")
        ),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["registered_models.id"],
            name=op.f("fk_model_versions_model_id_registered_models"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("model_id", "number", name=op.f("pk_model_versions")),
    )
    op.create_index(op.f("ix_model_versions_job_id"), "model_versions", ["job_id"])
    op.create_table(
        "model_aliases",
        sa.Column("model_id", sa.String(length=32), nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("updated_by", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id", "number"],
            ["model_versions.model_id", "model_versions.number"],
            name="fk_model_aliases_model_versions",
        ),
        sa.PrimaryKeyConstraint("model_id", "alias", name=op.f("pk_model_aliases")),
    )
    op.create_index(
        op.f("ix_model_aliases_model_id_number"), "model_aliases", ["model_id", "number"]
    )
    op.create_table(
        "model_alias_changes",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("model_id", sa.String(length=32), nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("from_number", sa.Integer(), nullable=True),
        sa.Column("to_number", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("checks", DOCUMENT, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["registered_models.id"],
            name=op.f("fk_model_alias_changes_model_id_registered_models"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_alias_changes")),
    )
    op.create_index(
        op.f("ix_model_alias_changes_model_id_id"), "model_alias_changes", ["model_id", "id"]
    )


def downgrade() -> None:
    op.drop_table("model_alias_changes")
    op.drop_table("model_aliases")
    op.drop_table("model_versions")
    op.drop_table("registered_models")
