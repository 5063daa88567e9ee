"""Add projects, sessions, artifacts and logs

Revision ID: 0002
Revises: 0001
Create Date: 2026-11-20 18:57:00.490162
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0002"
down_revision: str | Sequence[str] | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


DEFAULTS = {
    "attempts": ["waited_s"],
    "jobs": ["project", "priority", "queue", "max_attempts", "failures", "queued_at", "told"],
    "tokens": ["role", "project"],
    "workers": ["queues"],
}
"""Columns that need a value in existing rows; the program sets it in new rows."""


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=True),
        sa.Column("project", sa.String(length=64), nullable=True),
        sa.Column("token_id", sa.String(length=32), nullable=True),
        sa.Column("token_name", sa.String(length=200), nullable=True),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("data", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_audit_project_id"), ["project", "id"], unique=False)

    op.create_table(
        "projects",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("max_queued", sa.Integer(), nullable=True),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.execute("INSERT INTO projects (name, created_at) VALUES ('default', CURRENT_TIMESTAMP)")
    op.create_table(
        "idempotency_keys",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column(
            "headers", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True
        ),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.name"],
            name=op.f("fk_idempotency_keys_project_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "artifacts",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("path", sa.String(length=500), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_artifacts_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "path", name=op.f("pk_artifacts")),
    )
    op.create_table(
        "log_chunks",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("stream", sa.String(length=8), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_log_chunks_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_log_chunks")),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("token_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"],
            ["tokens.id"],
            name=op.f("fk_sessions_token_id_tokens"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("waited_s", sa.Double(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("first_step", sa.BigInteger(), nullable=True))
        batch_op.drop_column("frames")

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("project", sa.String(length=64), nullable=False, server_default="default")
        )
        batch_op.add_column(sa.Column("priority", sa.Integer(), nullable=False, server_default="5"))
        batch_op.add_column(
            sa.Column("queue", sa.String(length=64), nullable=False, server_default="default")
        )
        batch_op.add_column(
            sa.Column("max_attempts", sa.Integer(), nullable=False, server_default="1")
        )
        batch_op.add_column(sa.Column("created_by", sa.String(length=200), nullable=True))
        batch_op.add_column(sa.Column("request_id", sa.String(length=128), nullable=True))
        batch_op.add_column(sa.Column("cloned_from", sa.String(length=32), nullable=True))
        batch_op.add_column(sa.Column("failures", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(
            sa.Column(
                "queued_at",
                sa.DateTime(timezone=True),
                nullable=False,
                server_default="1970-01-01 00:00:00.000000",
            )
        )
        batch_op.add_column(sa.Column("not_before", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("told", sa.BigInteger(), nullable=False, server_default="0"))
        batch_op.create_index(
            batch_op.f("ix_jobs_project_created_at_id"),
            ["project", "created_at", "id"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_jobs_project_state"), ["project", "state"], unique=False
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_jobs_project_projects"), "projects", ["project"], ["name"]
        )

    with op.batch_alter_table("tokens", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("role", sa.String(length=16), nullable=False, server_default="admin")
        )
        batch_op.add_column(
            sa.Column("project", sa.String(length=64), nullable=False, server_default="default")
        )
        batch_op.add_column(sa.Column("created_by", sa.String(length=200), nullable=True))
        batch_op.add_column(sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_tokens_project_projects"), "projects", ["project"], ["name"]
        )

    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column(
                "queues",
                sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
                nullable=False,
                server_default='["default"]',
            )
        )
        batch_op.add_column(
            sa.Column(
                "usage", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True
            )
        )
        batch_op.add_column(
            sa.Column("drain_requested_at", sa.DateTime(timezone=True), nullable=True)
        )

    op.execute("UPDATE jobs SET queued_at = created_at")
    for table, names in DEFAULTS.items():
        with op.batch_alter_table(table, schema=None) as batch_op:
            for name in names:
                batch_op.alter_column(name, server_default=None)
    # Last, and separately: SQLite rebuilds a table without the sort order of an index.
    op.create_index(
        "ix_jobs_in_turn",
        "jobs",
        ["state", sa.literal_column("priority DESC"), "created_at", "id", "queue"],
        unique=False,
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_in_turn", "jobs")
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.drop_column("drain_requested_at")
        batch_op.drop_column("usage")
        batch_op.drop_column("queues")

    with op.batch_alter_table("tokens", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_tokens_project_projects"), type_="foreignkey")
        batch_op.drop_column("revoked_at")
        batch_op.drop_column("expires_at")
        batch_op.drop_column("created_by")
        batch_op.drop_column("project")
        batch_op.drop_column("role")

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_jobs_project_projects"), type_="foreignkey")
        batch_op.drop_index(batch_op.f("ix_jobs_project_state"))
        batch_op.drop_index(batch_op.f("ix_jobs_project_created_at_id"))
        batch_op.drop_column("told")
        batch_op.drop_column("not_before")
        batch_op.drop_column("queued_at")
        batch_op.drop_column("failures")
        batch_op.drop_column("cloned_from")
        batch_op.drop_column("request_id")
        batch_op.drop_column("created_by")
        batch_op.drop_column("max_attempts")
        batch_op.drop_column("queue")
        batch_op.drop_column("priority")
        batch_op.drop_column("project")

    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("frames", sa.BigInteger(), nullable=False, server_default="0")
        )
        batch_op.drop_column("first_step")
        batch_op.drop_column("waited_s")

    op.drop_table("sessions")
    op.drop_table("log_chunks")
    op.drop_table("artifacts")
    op.drop_table("idempotency_keys")
    op.drop_table("projects")
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_audit_project_id"))

    op.drop_table("audit")
