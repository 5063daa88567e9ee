"""Add subscriptions to notifications, their deliveries, and when a worker was lost

Revision ID: 0024
Revises: 0023
Create Date: 2026-11-28 18:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0024"
down_revision: str | Sequence[str] | None = "0023"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
TIME = sa.DateTime(timezone=True)
PENDING = sa.text("state = 'pending'")
OPEN = sa.text("disabled_at IS NULL AND completed_at IS NULL")
SUBSCRIPTIONS = "notification_subscriptions"
DELIVERIES = "notification_deliveries"


def upgrade() -> None:
    op.create_table(
        SUBSCRIPTIONS,
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("types", JSON, nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=True),
        sa.Column("secret", sa.String(length=200), nullable=True),
        sa.Column("previous_secret", sa.String(length=200), nullable=True),
        sa.Column("previous_secret_until", TIME, nullable=True),
        sa.Column("link_base", sa.String(length=500), nullable=True),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("failing_since", TIME, nullable=True),
        sa.Column("disabled_at", TIME, nullable=True),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("completed_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.name"],
            name=op.f("fk_notification_subscriptions_project_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_subscriptions")),
    )
    op.create_index(
        op.f("ix_notification_subscriptions_project_created_at_id"),
        SUBSCRIPTIONS,
        ["project", "created_at", "id"],
    )
    op.create_index(
        "ix_notification_subscriptions_open",
        SUBSCRIPTIONS,
        ["project", "job_id"],
        sqlite_where=OPEN,
        postgresql_where=OPEN,
    )
    op.create_table(
        DELIVERIES,
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("subscription_id", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=160), nullable=False),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("claim", sa.String(length=32), nullable=True),
        sa.Column("claimed_until", TIME, nullable=True),
        sa.Column("attempted_at", TIME, nullable=True),
        sa.Column("duration_s", sa.Double(), nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["subscription_id"],
            ["notification_subscriptions.id"],
            name=op.f("fk_notification_deliveries_subscription"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_deliveries")),
        sa.UniqueConstraint(
            "subscription_id",
            "source",
            name=op.f("uq_notification_deliveries_subscription_id_source"),
        ),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        op.f("ix_notification_deliveries_subscription_id_created_at_id"),
        DELIVERIES,
        ["subscription_id", "created_at", "id"],
    )
    op.create_index(
        "ix_notification_deliveries_due",
        DELIVERIES,
        ["due_at"],
        sqlite_where=PENDING,
        postgresql_where=PENDING,
    )
    op.add_column("workers", sa.Column("lost_at", TIME, nullable=True))


def downgrade() -> None:
    op.drop_column("workers", "lost_at")
    op.drop_table(DELIVERIES)
    op.drop_table(SUBSCRIPTIONS)
