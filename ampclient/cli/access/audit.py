"""`ampctl audit list`: the audit log. For admins."""

from operator import attrgetter
from typing import Annotated

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.server_output import print_audit

group = typer.Typer(help="Show who did what (for admins).", no_args_is_help=False)


@group.command(name="list")
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
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show who did what, newest first (for admins)."""
    if context.invoked_subcommand is not None:
        return
    entries = list(
        client_of(context).audit(
            action=action,
            project=project,
            token_id=token_id,
            limit=limit + 1,  # one more than is shown, to know whether there are more
        )
    )
    print_items(
        entries[:limit],
        chosen(output, as_json=as_json),
        print_audit,
        name=attrgetter("id"),
        empty="No matching audit entries.",
    )
    if len(entries) > limit:
        typer.echo(f"Showing the newest {limit}; use --limit N for more.", err=True)


group.callback(invoke_without_command=True)(audit)  # `ampctl audit`, the form of before
