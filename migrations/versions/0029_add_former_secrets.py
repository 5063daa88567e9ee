"""Add the former secrets of rotated tokens

Revision ID: 0029
Revises: 0028
Create Date: 2026-11-29 11:30:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0029"
down_revision: str | Sequence[str] | None = "0028"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "former_secrets",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("token_id", sa.String(length=32), nullable=False),
        sa.Column("valid_until", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"],
            ["tokens.id"],
            name=op.f("fk_former_secrets_token_id_tokens"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_former_secrets")),
    )
    op.create_index(op.f("ix_former_secrets_token_id"), "former_secrets", ["token_id"])


def downgrade() -> None:
    op.drop_table("former_secrets")
