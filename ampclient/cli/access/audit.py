"""`ampctl audit`: the audit log. For admins."""

from itertools import islice
from typing import Annotated

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.server_output import print_audit
from ampclient.cli.output.tables import print_json


def audit(
    context: typer.Context,
    *,
    action: Annotated[
        str | None,
        typer.Option(
            metavar="ACTION", help="Only this action, for example job.cancel.", show_default=False
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="Only this project.", show_default=False)
    ] = None,
    token_id: Annotated[
        str | None,
        typer.Option("--token-id", metavar="ID", help="Only this token.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of entries.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show who did what, newest first (for admins)."""
    entries = client_of(context).audit(action=action, project=project, token_id=token_id)
    # One more than is shown, to know whether there are more.
    found = list(islice(entries, limit + 1))
    if as_json:
        print_json([entry.to_json() for entry in found[:limit]])
    elif found:
        print_audit(found[:limit])
    else:
        typer.echo("No matching audit entries.", err=True)
    if len(found) > limit:
        typer.echo(f"Showing the newest {limit}; use --limit N for more.", err=True)
