"""Add studies: questions over several jobs, their jobs and their answers

Revision ID: 0015
Revises: 0014
Create Date: 2026-11-23 23:20:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0015"
down_revision: str | Sequence[str] | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "studies",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("ends_as", sa.String(length=16), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("options", JSON, nullable=False),
        sa.Column("policies", JSON, nullable=False),
        sa.Column("facts", JSON, nullable=False),
        sa.Column("may_run_code", sa.Boolean(), nullable=False),
        sa.Column("answer", JSON, nullable=True),
        sa.Column("token_id", sa.String(length=32), nullable=True),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_studies_project_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
    )
    op.create_index(op.f("ix_studies_project_created_at_id"), "studies",
                    ["project", "created_at", "id"])  # fmt: skip
    op.create_index(op.f("ix_studies_state"), "studies", ["state"])
    op.create_table(
        "study_jobs",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=100), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("changes", JSON, nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=True),
        sa.Column("result", JSON, nullable=True),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["studies.id"],
            name=op.f("fk_study_jobs_study_id_studies"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("study_id", "key", name=op.f("pk_study_jobs")),
    )
    op.create_index(op.f("ix_study_jobs_job_id"), "study_jobs", ["job_id"])


def downgrade() -> None:
    op.drop_table("study_jobs")
    op.drop_table("studies")
