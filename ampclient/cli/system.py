"""`ampctl workers` and `version`."""

from typing import Annotated

import typer

from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.output import print_json, print_workers
from ampcore import __version__


def workers(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Lost and stopped ones as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the workers that are online."""
    known = client_of(context).workers.list()
    found = known if every else [worker for worker in known if worker.state == "online"]
    if as_json:
        print_json([worker.to_json() for worker in found])
    elif found:
        print_workers(found)
    else:
        typer.echo("No worker is online.", err=True)
    if others := len(known) - len(found):
        typer.echo(f"Not shown: {others} lost or stopped; --all shows them.", err=True)


def version(context: typer.Context, as_json: AsJson = False) -> None:
    """Print the versions of ampctl and of the server."""
    if not as_json:
        typer.echo(f"ampctl {__version__}")
    client = client_of(context)
    server = client.version()
    if as_json:
        print_json({"ampctl": __version__, "url": client.url, "server": server.to_json()})
    else:
        typer.echo(f"server {server.version} (API {server.api}) at {client.url}")
