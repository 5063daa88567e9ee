"""Run migrations on the given connection, or on the database in the environment."""

import os
from typing import Any, Literal

import sqlalchemy as sa
from alembic import context

from store.clock import UtcDateTime
from store.database import Database
from store.tables import Base

DEFAULT_URL = "sqlite:///ampcore-data/ampcore.sqlite"


def render_item(kind: str, value: Any, _context: Any) -> str | Literal[False]:
    """Render our column types as their plain SQLAlchemy types."""
    if kind == "type" and isinstance(value, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and isinstance(value, sa.JSON):
        return 'sa.JSON().with_variant(postgresql.JSONB(), "postgresql")'
    return False


def run(connection: sa.Connection) -> None:
    """Migrate the schema on this connection to the requested revision."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_item=render_item,
        render_as_batch=connection.dialect.name == "sqlite",
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
