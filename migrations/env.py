"""Run migrations on the given connection, or on the database in the environment."""

import os
from typing import Any, Literal

import sqlalchemy as sa
from alembic import context

from migrations.online import IS_ONLINE
from store.clock import UtcDateTime
from store.database import Database
from store.tables import Base

POSTGRESQL_INDEXES = {"ix_jobs_labels", "ix_jobs_name_parts"}
DEFAULT_URL = "sqlite:///ampcore-data/ampcore.sqlite"


def render_item(kind: str, value: Any, _context: Any) -> str | Literal[False]:
    """Render our column types as their plain SQLAlchemy types."""
    if kind == "type" and isinstance(value, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and isinstance(value, sa.JSON):
        return 'sa.JSON().with_variant(postgresql.JSONB(), "postgresql")'
    return False


def include_object(
    _object: Any, name: str | None, kind: str, _reflected: bool, _compare_to: Any
) -> bool:
    """Leave out the indexes that only PostgreSQL has, which the models do not describe."""
    return kind != "index" or name not in POSTGRESQL_INDEXES


def run(connection: sa.Connection) -> None:
    """Migrate the schema on this connection to the requested revision."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_item=render_item,
        render_as_batch=connection.dialect.name == "sqlite",
        include_object=include_object,
        transaction_per_migration=bool(context.config.attributes.get(IS_ONLINE)),
    )
    with context.begin_transaction():
        context.run_migrations()


handed_over: sa.Connection | None = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    database = Database(os.environ.get("AMPCORE_DATABASE_URL", DEFAULT_URL))
    with database.engine.begin() as connection:
        run(connection)
    database.close()
