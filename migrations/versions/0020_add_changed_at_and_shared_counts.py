"""Add jobs.changed_at, and the tables of leaders, of counts and of compatibility

Revision ID: 0020
Revises: 0019
Create Date: 2026-11-27 16:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0020"
down_revision: str | Sequence[str] | None = "0019"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")
TIME = sa.DateTime(timezone=True)
TABLES_WITH_HEARTBEATS = ("jobs", "workers", "gang_members")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("changed_at", TIME, nullable=True))
    op.create_table(
        "leaders",
        sa.Column("task", sa.String(length=32), nullable=False),
        sa.Column("server_id", sa.String(length=32), nullable=False),
        sa.Column("lease_expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_leaders")),
    )
    op.create_table(
        "service_counts",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("counts", JSON, nullable=False),
        sa.Column("took_s", sa.Double(), nullable=False),
        sa.Column("counted_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_service_counts")),
    )
    op.create_table(
        "schema_compatibility",
        sa.Column("oldest_revision", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("oldest_revision", name=op.f("pk_schema_compatibility")),
    )
    if op.get_bind().dialect.name == "postgresql":
        # Servers of the version before insert jobs without it.
        op.execute("ALTER TABLE jobs ALTER COLUMN changed_at SET DEFAULT statement_timestamp()")
        # Room for the next version of a row on its page: a heartbeat then changes no index.
        for table in TABLES_WITH_HEARTBEATS:
            op.execute(f"ALTER TABLE {table} SET (fillfactor = 70)")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES_WITH_HEARTBEATS:
            op.execute(f"ALTER TABLE {table} RESET (fillfactor)")
    for table in ("schema_compatibility", "service_counts"):
        op.drop_table(table)
    op.drop_table("leaders")
    op.drop_column("jobs", "changed_at")
