"""`ampctl token`: create, list and revoke tokens. For admins."""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final

import typer

from ampclient._display import formats
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.server_output import print_tokens
from ampclient.cli.output.tables import print_json

group = typer.Typer(help="Create, list and revoke tokens (for admins).", no_args_is_help=True)

UNITS: Final = {"d": "days", "h": "hours", "m": "minutes"}


class Right(StrEnum):
    """What a token may do besides what its role allows."""

    CODE = "code"


class Role(StrEnum):
    """The role of a token."""

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


def _expiry(text: str) -> datetime:
    """30d, 12h or 15m from now, or a date."""
    try:
        if match := re.fullmatch(r"([1-9]\d{0,6})([dhm])", text):
            return datetime.now(UTC) + timedelta(**{UNITS[match[2]]: int(match[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        expected = "Expected a duration such as 30d or 12h, or a date such as 2030-12-31"
        raise typer.BadParameter(f"{expected}; received {text!r}.") from None


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
    right: Annotated[
        list[Right] | None,
        typer.Option(
            help="Right besides those of the role; code: submit jobs that run Python code of "
            "their own. May be repeated.",
            show_default=False,
        ),
    ] = None,
    project: Annotated[str, typer.Option(help="Project the token belongs to.")] = "default",
    expires_at: Annotated[
        datetime | None,
        typer.Option(
            "--expires",
            parser=_expiry,
            metavar="WHEN",
            help="Expiry: 30d, 12h, or a date (default: never).",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and print its secret (shown only once)."""
    tokens = client_of(context).tokens
    rights = sorted(set(right or ()))
    token = tokens.create(name, role=role, rights=rights, project=project, expires_at=expires_at)
    if as_json:
        print_json(token.to_json())
        return
    typer.echo(token.secret)
    until = f" until {formats.moment(token.expires_at)}" if token.expires_at else ""
    extra = f" with the right {', '.join(token.rights)}" if token.rights else ""
    typer.echo(
        f"Token {token.id}: {token.role}{extra} of {token.project}{until}. Keep the secret above: "
        "it is not shown again. To use it, set AMPCORE_URL and AMPCORE_TOKEN.",
        err=True,
    )


@group.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tokens (without their secrets)."""
    found = list(client_of(context).tokens.list())
    if as_json:
        print_json([token.to_json() for token in found])
    else:
        print_tokens(found)


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
