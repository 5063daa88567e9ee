"""`ampctl token`: create, list, rotate and revoke tokens. For admins."""

from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient._display import formats
from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.server_output import print_tokens
from ampclient.cli.output.tables import print_json
from ampspec.api.projects import DEFAULT_PROJECT
from ampspec.api.roles import FORMER_SCOPES, FormerScope, Role, Scope
from ampspec.documents.expiry import EXPIRY_HELP, parse_expiry

if TYPE_CHECKING:
    from ampspec.api.tokens import CreatedToken

group = typer.Typer(
    help="Create, list, rotate and revoke tokens (for admins).", no_args_is_help=True
)


def _expiry(text: str) -> datetime:
    try:
        return parse_expiry(text, datetime.now(UTC))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@group.command()
def create(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the token, for example its owner's.", show_default=False
        ),
    ],
    *,
    role: Annotated[Role, typer.Option(help="Role of the token.")] = Role.MEMBER,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            help="Permission beyond the role; jobs:run-code: submit jobs that run custom Python "
            "code; project:admin: manage tokens and retention rules of its project. Repeatable.",
            show_default=False,
        ),
    ] = None,
    right: Annotated[list[FormerScope] | None, typer.Option(hidden=True)] = None,
    project: Annotated[
        str | None,
        typer.Option(
            help="Project the token belongs to.",
            show_default="that of an admin of a project, else default",
        ),
    ] = None,
    expires_at: Annotated[
        datetime | None,
        typer.Option(
            "--expires",
            parser=_expiry,
            metavar="WHEN",
            help=EXPIRY_HELP,
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and print its secret (shown only once)."""
    client = client_of(context)
    tokens = client.tokens
    scopes = sorted({*(scope or ()), *(FORMER_SCOPES[name] for name in right or ())})
    if project is None:
        session = client.session()
        project = DEFAULT_PROJECT if session.role is Role.ADMIN else session.project
    token = tokens.create(name, role=role, scopes=scopes, project=project, expires_at=expires_at)
    if as_json:
        print_json(token.to_json())
        return
    _print_secret(token)


def _print_secret(token: "CreatedToken") -> None:
    """Print the secret, and on stderr what it is."""
    typer.echo(token.secret)
    until = f" until {formats.moment(token.expires_at)}" if token.expires_at else ""
    extra = f" with the scope {', '.join(token.scopes)}" if token.scopes else ""
    typer.echo(
        f"Token {token.id}: {token.role}{extra} of {token.project}{until}. Keep the secret above: "
        "it is not shown again. To use it, set AMPCORE_URL and AMPCORE_TOKEN.",
        err=True,
    )


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the tokens (without their secrets)."""
    tokens = client_of(context).tokens.list(limit=limit)
    print_items(tokens, chosen(output, as_json=as_json), print_tokens, name=attrgetter("id"))


@group.command()
def rotate(
    context: typer.Context,
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="The token's id.", show_default=False)
    ],
    *,
    grace_s: Annotated[
        float,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            min=0,
            help="How long the secret before is valid, too; 0: it ends at once.",
        ),
    ] = 3600,
    as_json: AsJson = False,
) -> None:
    """Give a token another secret and print it (shown only once)."""
    token = client_of(context).tokens.rotate(token_id, grace_s=grace_s)
    if as_json:
        print_json(token.to_json())
    else:
        _print_secret(token)


@group.command()
def revoke(
    context: typer.Context,
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="The token's id.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Revoke a token, immediately and permanently."""
    client_of(context).tokens.revoke(token_id)
    if as_json:
        print_json({"id": token_id})
    else:
        typer.echo(f"{token_id} revoked")
