"""`ampctl login`, `logout`, `whoami` and `version`: the server and token that commands use."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient._display import formats
from ampclient.cli.options import AsJson, ServerOptions, client_of
from ampclient.cli.output.tables import print_fields, print_json
from ampclient.connection import Connection, connection_path, login_path, store_login
from ampclient.errors import NotConfigured
from ampspec import __version__

if TYPE_CHECKING:
    from ampspec.api.session import Session


def login(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="Address of the server.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Save a server address and token for later commands, after checking them with the server.

    Prompts for the token, or reads it from standard input: ampctl login http://host:8470 <
    token-file. With --connection FILE, saves that file's address and token.
    """
    path = _own_path()
    connection = _asked_for(context.obj, url)
    context.obj.used = connection
    session = _session(connection)
    store_login(connection, path)
    if as_json:
        print_json({"url": connection.url, "path": str(path), "session": session.to_json()})
        return
    who = f"{session.token_name}, {session.role} of {session.project}"
    typer.echo(f"Logged in to {connection.url} as {who}. Saved to {path}.")
    _warn_if_overridden(path)


def logout(as_json: AsJson = False) -> None:
    """Delete the saved login. The token stays valid until an admin revokes it."""
    path = _own_path()
    was_there = path.exists()
    path.unlink(missing_ok=True)
    if as_json:
        print_json({"path": str(path), "removed": was_there})
    elif was_there:
        typer.echo(f"Logged out; {path} deleted. The token stays valid until it is revoked.")
    else:
        typer.echo("Not logged in.")


def whoami(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the current token, its role and project."""
    client = client_of(context)
    session = client.session()
    if as_json:
        print_json({**session.to_json(), "url": client.url})
        return
    facts = [("token", f"{session.token_name} ({session.token_id})"), ("role", session.role)]
    if session.scopes:
        facts.append(("scopes", ", ".join(session.scopes)))
    facts += [("project", session.project), ("server", client.url)]
    if session.expires_at is not None:
        facts.append(("expires", formats.moment(session.expires_at)))
    print_fields(facts)


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


def _asked_for(server: ServerOptions, url: str | None) -> Connection:
    """The connection to save: that of --connection, else the address and a prompted token."""
    if server.connection:
        if url:
            raise typer.BadParameter("give URL or --connection, not both")
        return Connection.from_file(server.connection)
    url = url or server.url or os.environ.get("AMPCORE_URL") or _asked_url()
    Connection(url, "none")  # rejects an invalid address before the token is typed
    return Connection(url, _asked_token(url), token_from="standard input")  # noqa: S106


def _asked_url() -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter("expected the address of a server", param_hint="URL")
    return str(typer.prompt("Server", default="http://127.0.0.1:8470", err=True))


def _asked_token(url: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Token for {url}", hide_input=True, err=True))
    return sys.stdin.readline()


def _session(connection: Connection) -> "Session":
    """The session of the token. Raises Unauthorized, ConnectionFailed."""
    from ampclient.client import Client

    with Client(connection.url, connection.token) as client:
        return client.session()


def _own_path() -> Path:
    path = login_path(os.environ)
    if path is None:
        raise NotConfigured("Cannot find your home folder: set HOME or XDG_CONFIG_HOME.")
    return path


def _warn_if_overridden(path: Path) -> None:
    """Warn if the environment or a connection file takes precedence over the login."""
    first = [name for name in ("AMPCORE_URL", "AMPCORE_TOKEN") if os.environ.get(name)]
    file = connection_path(os.environ)
    if not first and (file.exists() or os.environ.get("AMPCORE_CONNECTION")):
        first = [f"the connection file {file}"]
    if first:
        typer.echo(f"Note: commands use {' and '.join(first)} before this login.", err=True)
