"""Fill jobs.changed_at, and jobs.turn_at of jobs that have not ended

Revision ID: 0021
Revises: 0020
Create Date: 2026-11-27 16:10:00.000000
"""

from collections.abc import Sequence

from alembic import op

from migrations.online import update_in_batches

revision: str = "0021"
down_revision: str | Sequence[str] | None = "0020"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

UNFINISHED = "state NOT IN ('succeeded', 'failed', 'cancelled')"
POINT_S = 21_600
"""How much earlier the turn of a job is for each point of its priority."""


def upgrade() -> None:
    update_in_batches("jobs", "UPDATE jobs SET changed_at = updated_at WHERE changed_at IS NULL")
    if op.get_bind().dialect.name == "sqlite":
        # The microseconds, which SQLite does not compute with, stay.
        whole = "substr(created_at, 1, 19)"
        shifted = f"strftime('%Y-%m-%d %H:%M:%S', {whole}, -(priority * {POINT_S}) || ' seconds')"
        turn = f"{shifted} || substr(created_at, 20)"
    else:
        turn = f"created_at - priority * interval '{POINT_S} seconds'"
    update_in_batches(
        "jobs",
        f"UPDATE jobs SET turn_at = {turn} WHERE turn_at IS NULL AND {UNFINISHED}",  # noqa: S608
    )


def downgrade() -> None:
    pass  # earlier revisions drop the columns
