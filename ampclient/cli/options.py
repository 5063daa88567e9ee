"""Options that commands share, and the client and the job that they select."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ampclient._display import formats
from ampclient.cli.shell_completion import job_ids
from ampclient.connection import Connection, resolve
from ampclient.errors import AmpcoreError, NotFound
from ampspec.documents.problems import closest_match

if TYPE_CHECKING:
    from ampclient._job.job import Job
    from ampclient.client import Client

JobId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Job id.", show_default=False, autocompletion=job_ids()),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


Start = Annotated[int | None, typer.Option(min=0, help="First step.", show_default=False)]
End = Annotated[int | None, typer.Option(min=0, help="End step (exclusive).", show_default=False)]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="Comma-separated columns, for example loss,skipped.", show_default=False
    ),
]
Attempt = Annotated[
    int | None,
    typer.Option(
        "--attempt", min=1, metavar="N", help="Only this attempt's steps.", show_default=False
    ),
]
MaxPoints = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=10_000,
        metavar="N",
        help="Downsample to at most N points, each with min, max, first, last and mean.",
        show_default=False,
    ),
]

MAX_SUGGESTIONS: Final = 3
RECENT_JOBS: Final = 100
"""How many of the newest jobs are searched for an id similar to a mistyped one."""


Limit = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of rows.", show_default="all")
]


@dataclass
class ServerOptions:
    """The server named on the command line, if any, and the connection that the command used."""

    url: str | None = None
    connection: Path | None = None
    used: Connection | None = None


class StepFormat(StrEnum):
    """The output format of steps."""

    TABLE = "table"
    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"

    @property
    def is_written_by_server(self) -> bool:
        """Whether the server writes this format, which is faster than writing it here."""
        return self in (StepFormat.CSV, StepFormat.NDJSON)


def client_of(context: typer.Context) -> "Client":
    """The client for this command; it is closed when the command ends."""
    from ampclient.client import Client

    connection = connection_of(context)
    return context.with_resource(Client(connection.url, connection.token))


def connection_of(context: typer.Context) -> Connection:
    """The address of the server and the token for this command."""
    server: ServerOptions = context.obj
    if server.connection:
        server.used = Connection.from_file(server.connection)
    else:
        server.used = resolve(server.url, None, os.environ)
    return server.used


def job_of(context: typer.Context, job_id: str) -> "Job":
    """The job with this id. Raises NotFound with suggestions of similar ids."""
    client = client_of(context)
    return job_in(client, job_id)


def job_in(client: "Client", job_id: str) -> "Job":
    """As `job_of`, for a command that already has its client."""
    try:
        return client.jobs.get(job_id)
    except NotFound as error:
        detail = f"{error.detail} {suggest_jobs(client, job_id)}"
        raise NotFound(detail, code=error.code, status=error.status) from None


def split_names(columns: str | None) -> list[str] | None:
    """The column names in --columns; None for all columns."""
    if columns is None:
        return None
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not set(names) - {"step"}:
        raise typer.BadParameter("expected names such as loss,skipped", param_hint="--columns")
    return names


def suggest_jobs(client: "Client", job_id: str) -> str:
    """A hint for an unknown id: similar jobs, else the command that lists jobs."""
    try:
        jobs = _similar(client, job_id)
    except AmpcoreError:
        jobs = []
    if not jobs:
        return "Run `ampctl list` to see the jobs."
    names = [f"{job.id} ({formats.printable(job.name)}, {job.state})" for job in jobs]
    return f"Did you mean {' or '.join(names)}?"


def _similar(client: "Client", job_id: str) -> "list[Job]":
    """Jobs whose id starts with the text or whose name contains it, else the most similar id."""
    if job_id:
        similar = list(client.jobs.list(q=job_id, explanations=True, limit=MAX_SUGGESTIONS))
        if similar:
            return similar
    newest = {job.id: job for job in client.jobs.list(explanations=True, limit=RECENT_JOBS)}
    word = closest_match(job_id, newest)
    return [newest[word]] if word else []
