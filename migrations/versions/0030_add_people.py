"""Add people who sign in with a provider, their sessions, and the owners of tokens

Revision ID: 0030
Revises: 0029
Create Date: 2026-11-29 13:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from store.tables.base import JsonColumn

revision: str = "0030"
down_revision: str | Sequence[str] | None = "0029"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("issuer", sa.String(length=500), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("email", sa.String(length=320), nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("groups", JsonColumn, nullable=False),
        sa.Column("grants", JsonColumn, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("signed_in_at", MOMENT, nullable=False),
        sa.Column("access_until", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_people_issuer_subject")),
    )
    op.create_table(
        "person_sessions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("person_id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=True),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("user_agent", sa.String(length=200), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("used_at", MOMENT, nullable=False),
        sa.Column("idle_s", sa.Double(), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"],
            ["people.id"],
            name=op.f("fk_person_sessions_person_id_people"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_person_sessions")),
        sa.UniqueConstraint("digest", name=op.f("uq_person_sessions_digest")),
    )
    op.create_index(op.f("ix_person_sessions_person_id"), "person_sessions", ["person_id"])
    op.create_table(
        "sign_ins",
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("browser", sa.String(length=64), nullable=False),
        sa.Column("return_to", sa.String(length=1000), nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("state", name=op.f("pk_sign_ins")),
    )
    op.add_column("tokens", sa.Column("owner_id", sa.String(length=32), nullable=True))


def downgrade() -> None:
    op.drop_column("tokens", "owner_id")
    op.drop_table("sign_ins")
    op.drop_table("person_sessions")
    op.drop_table("people")
