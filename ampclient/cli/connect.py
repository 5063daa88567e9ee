"""The options that every command shares, and the server and the job that they name."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient.cli.completing import job_ids
from ampclient.connection import Connection, resolve
from ampclient.errors import NotFound

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampclient.job import Job

JobId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The job's id.", show_default=False, autocompletion=job_ids()
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass
class Server:
    """Which server the command line names, if any, and which one a command then spoke to."""

    url: str | None = None
    connection: Path | None = None
    used: Connection | None = None


class StepFormat(StrEnum):
    """How steps are written."""

    TABLE = "table"
    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"

    @property
    def is_of_the_server(self) -> bool:
        """Whether the server writes it, and faster than we could."""
        return self in (StepFormat.CSV, StepFormat.NDJSON)


def client_of(context: typer.Context) -> "Client":
    """The client for this command; closed when the command is over."""
    from ampclient.client import Client

    server: Server = context.obj
    if server.connection:
        server.used = Connection.from_file(server.connection)
    else:
        server.used = resolve(server.url, None, os.environ)
    return context.with_resource(Client(server.used.url, server.used.token))


def job_of(context: typer.Context, job_id: str) -> "Job":
    """The job of this id. Raises NotFound, with those that may have been meant."""
    client = client_of(context)
    return job_in(client, job_id)


def job_in(client: "Client", job_id: str) -> "Job":
    """The same, for a command that has its client already."""
    from ampclient.cli.suggestions import meant

    try:
        return client.jobs.get(job_id)
    except NotFound as error:
        detail = f"{error.detail} {meant(client, job_id)}"
        raise NotFound(detail, code=error.code, status=error.status) from None
