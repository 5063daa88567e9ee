"""Record metrics, resolved policies and extended jobs

Revision ID: 0007
Revises: 0006
Create Date: 2026-11-23 16:40:00.000000
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.online import add_column, create_index, in_batches, update_in_batches

revision: str = "0007"
down_revision: str | Sequence[str] | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

JSON = sa.JSON(none_as_null=True).with_variant(
    postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), "postgresql"
)
COLUMNS: dict[str, Any] = {
    "resolved_policy": sa.String(length=32),
    "extends": sa.String(length=32),
    "metrics": JSON,
}
JOBS_PER_BATCH = 500
METRIC = re.compile(r"val_[\w.:@/+()%,#-](?:[\w.:@/+()%,# -]{0,94}[\w.:@/+()%,#-])?")
NON_FINITE = ("NaN", "Infinity", "-Infinity")


# No batch mode: SQLite would copy the table of jobs, and both databases add columns in place.
def upgrade() -> None:
    for name, kind in COLUMNS.items():
        add_column("jobs", sa.Column(name, kind, nullable=True))
    op.create_table(
        "job_metrics",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
            name=op.f("fk_job_metrics_job_id_jobs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "name", name=op.f("pk_job_metrics")),
        if_not_exists=True,
    )
    for name, table, columns, where in (
        ("ix_job_metrics_name_value_job_id", "job_metrics", ["name", "value", "job_id"], None),
        ("ix_jobs_extends", "jobs", ["extends"], "extends IS NOT NULL"),
        ("ix_events_evaluations", "events", ["job_id", "step", "seq"], "type = 'evaluation'"),
    ):
        condition = sa.text(where) if where else None
        create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
    in_batches("jobs", _fill_metrics)
    _fill_resolved_policies()


def downgrade() -> None:
    op.drop_index(op.f("ix_job_metrics_name_value_job_id"), table_name="job_metrics")
    op.drop_table("job_metrics")
    op.drop_index("ix_events_evaluations", table_name="events")
    op.drop_index("ix_jobs_extends", table_name="jobs")
    for name in reversed(COLUMNS):
        op.drop_column("jobs", name)


def _fill_metrics(connection: sa.Connection, after_id: str) -> tuple[str | None, int]:
    """Fill a batch with the metrics of the last evaluation of each job, else of its result."""
    ids = list(
        connection.execute(_NEXT_JOBS, {"after": after_id, "most": JOBS_PER_BATCH}).scalars()
    )
    if not ids:
        return None, 0
    metrics_by_job = {
        row.id: _metrics(row.data) or _metrics(row.summary)
        for row in connection.execute(_LAST_EVALUATIONS, {"job_ids": ids})
    }
    values = [
        {"job_id": job_id, "filled": metrics}
        for job_id, metrics in metrics_by_job.items()
        if metrics
    ]
    rows = [
        {"job_id": job_id, "name": name, "value": float(value)}
        for job_id, metrics in metrics_by_job.items()
        for name, value in metrics.items()
        if not isinstance(value, str)
    ]
    if values:
        connection.execute(_SET_METRICS, values)
    if rows:
        connection.execute(_ADD_METRIC, rows)
    return ids[-1], len(ids)


def _fill_resolved_policies() -> None:
    """The policy in the last `started` event of each job that has started."""
    policy = "CASE WHEN json_valid(data) THEN json_extract(data, '$.policy') END"
    if op.get_bind().dialect.name == "postgresql":
        policy = "data ->> 'policy'"
    update_in_batches(
        "jobs",
        f"UPDATE jobs SET resolved_policy = (SELECT substr({policy}, 1, 32) FROM events "  # noqa: S608 - a constant
        "WHERE job_id = jobs.id AND type = 'started' ORDER BY seq DESC LIMIT 1) "
        "WHERE attempt > 0 AND resolved_policy IS NULL",
    )


_JOBS = sa.table("jobs", sa.column("id"), sa.column("metrics", JSON))
_SET_METRICS = (
    sa.update(_JOBS)
    .where(_JOBS.c.id == sa.bindparam("job_id"))
    .values(metrics=sa.bindparam("filled"))
)
# An interrupted upgrade may have added it.
_ADD_METRIC = sa.text(
    "INSERT INTO job_metrics (job_id, name, value, updated_at) "
    "VALUES (:job_id, :name, :value, CURRENT_TIMESTAMP) ON CONFLICT DO NOTHING"
)
_NEXT_JOBS = sa.text(
    "SELECT id FROM jobs WHERE attempt > 0 AND id > :after ORDER BY id LIMIT :most"
)
# As text: a damaged row must not fail the upgrade.
_LAST_EVALUATIONS = sa.text(
    "SELECT jobs.id, CAST(jobs.summary AS TEXT) AS summary, (SELECT CAST(data AS TEXT) FROM events "
    "WHERE events.job_id = jobs.id AND events.type = 'evaluation' "
    "ORDER BY seq DESC LIMIT 1) AS data FROM jobs WHERE jobs.id IN :job_ids"
).bindparams(sa.bindparam("job_ids", expanding=True))


def _metrics(text: str | None) -> dict[str, Any]:
    """The metrics in a JSON object, as `jobs.metrics` holds them."""
    try:
        document = json.loads(text or "null")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, Mapping):
        return {}
    return {name: value for name, value in document.items() if _is_metric(name, value)}


def _is_metric(name: str, value: Any) -> bool:
    if METRIC.fullmatch(name) is None or isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return abs(value) <= sys.float_info.max  # false for NaN; an integer may be larger
    return value in NON_FINITE
