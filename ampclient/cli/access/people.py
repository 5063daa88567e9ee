"""`ampctl person`: list who has signed in with the provider, and end their access. For admins."""

from operator import attrgetter
from typing import Annotated

import typer

from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.server_output import print_people
from ampclient.cli.output.tables import print_json

group = typer.Typer(
    help="List the people who have signed in with the provider, and end their access (for admins).",
    no_args_is_help=True,
)

PersonId = Annotated[str, typer.Argument(metavar="ID", help="Person id.", show_default=False)]


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the people, what they may do, and where they are signed in."""
    people = client_of(context).people.list(limit=limit)
    print_items(people, chosen(output, as_json=as_json), print_people, name=attrgetter("id"))


@group.command()
def end_access(context: typer.Context, person_id: PersonId, as_json: AsJson = False) -> None:
    """Sign a person out everywhere, and revoke its tokens.

    It can sign in again if one of its groups has access: take it out of them first.
    """
    client_of(context).people.end_access(person_id)
    if as_json:
        print_json({"id": person_id})
    else:
        typer.echo(f"The access of {person_id} has ended.")


@group.command()
def sign_out(
    context: typer.Context,
    person_id: PersonId,
    session_id: Annotated[
        str, typer.Argument(metavar="SESSION", help="Session id.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Sign a person out of one browser."""
    client_of(context).people.sign_out(person_id, session_id)
    if as_json:
        print_json({"id": person_id, "session": session_id})
    else:
        typer.echo(f"{person_id} is signed out of {session_id}.")
