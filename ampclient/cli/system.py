"""`ampctl workers` and `version`."""

import typer

from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.output import print_json, print_workers
from ampcore import __version__


def workers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the workers."""
    found = client_of(context).workers.list()
    if as_json:
        print_json([worker.to_json() for worker in found])
    else:
        print_workers(found)


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
