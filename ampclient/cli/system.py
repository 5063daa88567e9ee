"""`ampctl whoami` and `version`."""

import typer

from ampclient import formats
from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.output import print_facts, print_json
from ampcore import __version__


def whoami(context: typer.Context, as_json: AsJson = False) -> None:
    """Print which token this is, and what it may do."""
    client = client_of(context)
    session = client.session()
    if as_json:
        print_json({**session.to_json(), "url": client.url})
        return
    facts = [("token", f"{session.token_name} ({session.token_id})"), ("role", session.role)]
    facts += [("project", session.project), ("server", client.url)]
    if session.expires_at is not None:
        facts.append(("until", formats.moment(session.expires_at)))
    print_facts(facts)


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
