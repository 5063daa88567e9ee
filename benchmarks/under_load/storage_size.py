"""Stored bytes per step in a database, once all steps of the job are merged."""

from store.database import Database
from under_load.service_processes import service_environment
from under_load.telemetry import create_finished_job

STEP_TABLES = ("step_blocks", "step_levels", "step_points")


def storage_size(kind: str, steps: int, size: int) -> dict[str, float]:
    """The bytes in use, and the growth of the files; the steps were stored in blocks of `size`.

    Merging leaves free space in the files, which the next job uses.
    """
    with service_environment(kind) as service:
        sizes = [size_bytes(service.database)]
        for _ in range(2):
            create_finished_job(service.database, steps, size)
            sizes.append(size_bytes(service.database))
        packed = size_bytes(service.database, packed=True)
    empty, first, second = sizes
    return {
        "bytes_per_step": round((packed - empty) / (2 * steps), 2),
        "growth_by_the_first_job": round((first - empty) / steps, 2),
        "growth_by_the_next_job": round((second - first) / steps, 2),
    }


def size_bytes(database: Database, *, packed: bool = False) -> int:
    """The size of the database, or of PostgreSQL's step tables; packed: without free space."""
    with database.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        ask = connection.exec_driver_sql
        if database.engine.dialect.name == "sqlite":
            ask("PRAGMA wal_checkpoint(TRUNCATE)")
            names = ("page_count", "freelist_count", "page_size")
            pages, free, page_bytes = (int(ask(f"PRAGMA {name}").scalar_one()) for name in names)
            return (pages - free * packed) * page_bytes
        # autovacuum would do the first of these within a minute.
        ask(f"VACUUM {'(FULL) ' * packed}{', '.join(STEP_TABLES)}")
        sizes = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname = ANY(%s)"
        return int(ask(sizes, (list(STEP_TABLES),)).scalar_one())
