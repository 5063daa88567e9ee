"""Rename columns and indexes after their content, and count an artifact's steps from 1

Revision ID: 0006
Revises: 0005
Create Date: 2026-11-23 04:50:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | Sequence[str] | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COLUMNS = [
    ("jobs", "told", "entries_written"),
    ("jobs", "woken_at", "dispatched_at"),
    ("step_blocks", "marks", "merge_index"),
]
"""Table, column name until 0005, column name from 0006 on."""


# Both databases rename a column in place, in its indexes too. No batch mode: it would copy every
# row of `step_blocks`, which holds all steps of all jobs. Indexes cannot be renamed in SQLite.
# An artifact's step was the index of the last step before it, and is the number of steps done:
# `checkpoint-000001-step-55` was listed with step 54.
def upgrade() -> None:
    op.drop_index("ix_step_blocks_loose", "step_blocks")
    op.drop_index("ix_jobs_in_turn", "jobs")
    for table, old, new in COLUMNS:
        op.alter_column(table, old, new_column_name=new)
    _create_claim_order_index("ix_jobs_claim_order")
    _create_unmerged_index("ix_step_blocks_unmerged", "merge_index")
    op.execute("UPDATE artifacts SET step = step + 1 WHERE step IS NOT NULL")


def downgrade() -> None:
    op.execute("UPDATE artifacts SET step = step - 1 WHERE step IS NOT NULL")
    op.drop_index("ix_step_blocks_unmerged", "step_blocks")
    op.drop_index("ix_jobs_claim_order", "jobs")
    for table, old, new in COLUMNS:
        op.alter_column(table, new, new_column_name=old)
    _create_claim_order_index("ix_jobs_in_turn")
    _create_unmerged_index("ix_step_blocks_loose", "marks")


def _create_claim_order_index(name: str) -> None:
    op.create_index(
        name,
        "jobs",
        ["state", sa.literal_column("priority DESC"), "created_at", "id", "queue"],
        unique=False,
    )


def _create_unmerged_index(name: str, merge_index: str) -> None:
    op.create_index(
        name,
        "step_blocks",
        ["job_id", "attempt"],
        unique=False,
        sqlite_where=sa.text(f"{merge_index} IS NULL"),
        postgresql_where=sa.text(f"{merge_index} IS NULL"),
    )
