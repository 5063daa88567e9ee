"""The options that every command shares, and the client that they describe."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ampclient.client import Client

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class Server:
    """Which server the command line named, if any."""

    url: str | None = None
    connection: Path | None = None


class StepFormat(StrEnum):
    """How steps are written."""

    TABLE = "table"
    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"


def client_of(context: typer.Context) -> "Client":
    """The client for this command; closed when the command is over."""
    from ampclient.client import Client

    server: Server = context.obj
    client = Client.from_file(server.connection) if server.connection else Client(server.url)
    return context.with_resource(client)
