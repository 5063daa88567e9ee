"""All checks of a service, in the order in which a part depends on those before it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from server.doctor.database_checks import SQLITE, database_findings
from server.doctor.findings import Finding, Level, ok, problem
from server.doctor.machine_checks import machine_findings
from server.doctor.provider_check import provider_findings
from server.doctor.service_checks import service_findings
from server.settings import Settings
from store.database import Database, StatementLimits

STATEMENT_S = 30.0


def examine(settings: Settings) -> Iterator[Finding]:
    """Check each part; changes nothing but a small file in the storage, which is deleted.

    Args:
        settings: Those of the server.

    Yields:
        A finding for each part, as soon as there is one.
    """
    address = make_url(settings.database_url)
    name = address.render_as_string(hide_password=True)
    if address.get_backend_name() == SQLITE and not Path(address.database or "").is_file():
        # Further checks would create folders of a server that does not exist.
        yield problem(
            "database",
            f"there is no server here: {name} does not exist",
            "Start a server with `ampserver up`, or set AMPCORE_DATA_DIR or AMPCORE_DATABASE_URL "
            "to those of a server. `ampserver migrate` creates a database for `ampserver api`.",
        )
        return
    yield from _database(settings.database_url, name)
    yield from machine_findings(settings)
    yield from provider_findings(settings)


def _database(url: str, name: str) -> Iterator[Finding]:
    with closing(Database(url, limits=StatementLimits(statement_s=STATEMENT_S))) as database:
        try:
            with database.read() as session:
                server = ".".join(map(str, session.connection().dialect.server_version_info or ()))
                yield ok("database", f"{name}, version {server}")
                has_tables = True
                for finding in database_findings(session):
                    has_tables &= finding.part != "schema" or finding.level is Level.OK
                    yield finding
                if has_tables:
                    yield from service_findings(session)
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            yield problem(
                "database",
                f"{name} cannot be read: {cause}",
                "Start it, or correct AMPCORE_DATABASE_URL.",
            )
