"""Create the tables of version 0.5

Revision ID: 0003
Revises:
Create Date: 2026-11-22 08:40:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0003"
down_revision: str | Sequence[str] | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
ID = sa.String(length=32)


TABLES = (
    "projects",
    "jobs",
    "tokens",
    "sessions",
    "idempotency_keys",
    "audit",
    "workers",
    "attempts",
    "events",
    "log_chunks",
    "artifacts",
    "step_blocks",
    "step_levels",
    "step_points",
)
"""In an order in which each table comes after those that it refers to."""


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("max_queued", sa.Integer(), nullable=True),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_projects"),
    )
    op.execute("INSERT INTO projects (name, created_at) VALUES ('default', CURRENT_TIMESTAMP)")
    op.create_table(
        "jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("policy", ID, nullable=False),
        sa.Column("model", ID, nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker_id", ID, nullable=True),
        sa.Column("lease_expires_at", TIME, nullable=True),
        sa.Column("requested", sa.String(length=16), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("total_steps", sa.BigInteger(), nullable=True),
        sa.Column("latest", JSON, nullable=True),
        sa.Column("summary", JSON, nullable=True),
        sa.Column("woken_at", TIME, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("queue", sa.String(length=64), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("cloned_from", ID, nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("queued_at", TIME, nullable=False),
        sa.Column("not_before", TIME, nullable=True),
        sa.Column("told", sa.BigInteger(), nullable=False),
        sa.Column("totals", JSON, nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_jobs_project_projects"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_created_at_id", "jobs", ["created_at", "id"])
    op.create_index("ix_jobs_state_created_at", "jobs", ["state", "created_at"])
    op.create_index("ix_jobs_project_created_at_id", "jobs", ["project", "created_at", "id"])
    op.create_index("ix_jobs_project_state", "jobs", ["project", "state"])
    op.create_index(
        "ix_jobs_in_turn",
        "jobs",
        ["state", sa.literal_column("priority DESC"), "created_at", "id", "queue"],
    )
    op.create_table(
        "tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("expires_at", TIME, nullable=True),
        sa.Column("revoked_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_tokens_project_projects"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("token_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"], ["tokens.id"], name="fk_sessions_token_id_tokens", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", JSON, nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.name"],
            name="fk_idempotency_keys_project_projects",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", "key", name="pk_idempotency_keys"),
    )
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at", TIME, nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=True),
        sa.Column("project", sa.String(length=64), nullable=True),
        sa.Column("token_id", ID, nullable=True),
        sa.Column("token_name", sa.String(length=200), nullable=True),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("data", JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_project_id", "audit", ["project", "id"])
    op.create_table(
        "workers",
        sa.Column("id", ID, nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("version", ID, nullable=False),
        sa.Column("hardware", JSON, nullable=True),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("last_seen_at", TIME, nullable=False),
        sa.Column("stopped_at", TIME, nullable=True),
        sa.Column("queues", JSON, nullable=False),
        sa.Column("usage", JSON, nullable=True),
        sa.Column("drain_requested_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "attempts",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker_id", ID, nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("waited_s", sa.Double(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_attempts_job_id_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_attempts"),
    )
    op.create_table(
        "events",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("type", ID, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("data", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_events_job_id_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name="pk_events"),
    )
    op.create_table(
        "log_chunks",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("stream", sa.String(length=8), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_log_chunks_job_id_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name="pk_log_chunks"),
    )
    op.create_table(
        "artifacts",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("path", sa.String(length=500), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_artifacts_job_id_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "path", name="pk_artifacts"),
    )
    # SQLite reads a row from its beginning: small columns come before large ones.
    op.create_table(
        "step_blocks",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("end_step", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("examples", sa.BigInteger(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("skipped_s", sa.Double(), nullable=False),
        sa.Column("best_loss", sa.Double(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("marks", sa.LargeBinary(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_step_blocks_job_id_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "first_step", name="pk_step_blocks"),
    )
    op.create_index("ix_step_blocks_job_id_seq", "step_blocks", ["job_id", "seq"])
    op.create_index(
        "ix_step_blocks_loose",
        "step_blocks",
        ["job_id", "attempt"],
        sqlite_where=sa.text("marks IS NULL"),
        postgresql_where=sa.text("marks IS NULL"),
    )
    op.create_table(
        "step_levels",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("end_step", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_step_levels_job_id_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "size", "first_step", name="pk_step_levels"),
    )
    op.create_table(
        "step_points",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("end_step", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_step_points_job_id_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "first_step", name="pk_step_points"),
    )


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
