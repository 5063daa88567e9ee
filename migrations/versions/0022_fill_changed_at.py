"""Fill jobs.changed_at

Revision ID: 0022
Revises: 0021
Create Date: 2026-11-27 16:10:00.000000
"""

from collections.abc import Sequence

from migrations.online import update_in_batches

revision: str = "0022"
down_revision: str | Sequence[str] | None = "0021"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    update_in_batches("jobs", "UPDATE jobs SET changed_at = updated_at WHERE changed_at IS NULL")


def downgrade() -> None:
    pass  # 0021 drops the column
