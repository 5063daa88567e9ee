"""`ampctl login` and `logout`: the server and the token that later commands use."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient.cli.connect import AsJson, Server
from ampclient.cli.output import print_json
from ampclient.connection import Connection, connection_path, login_path
from ampclient.errors import NotConfigured

if TYPE_CHECKING:
    from ampclient.views import Session


def login(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="Address of the server.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a server's address and a token for later commands, once the server has accepted it.

    Asks for the token; where standard input is no terminal, it is read from there:
    ampctl login http://host:8470 < token-file. With --connection FILE both are that file's.
    """
    from ampclient.login import store_login

    path = _own_path()
    connection = _asked_for(context.obj, url)
    context.obj.used = connection
    session = _session(connection)
    store_login(connection, path)
    if as_json:
        print_json({"url": connection.url, "path": str(path), "session": session.to_json()})
        return
    who = f"{session.token_name}, {session.role} of {session.project}"
    typer.echo(f"Logged in to {connection.url} as {who}. Kept in {path}.")
    _tell_what_comes_first(path)


def logout(as_json: AsJson = False) -> None:
    """Forget what login kept. The token itself stays valid until an admin revokes it."""
    path = _own_path()
    was_there = path.exists()
    path.unlink(missing_ok=True)
    if as_json:
        print_json({"path": str(path), "removed": was_there})
    elif was_there:
        typer.echo(f"Logged out; {path} is removed. The token itself stays valid until revoked.")
    else:
        typer.echo("Nobody was logged in.")


def _asked_for(server: Server, url: str | None) -> Connection:
    """The connection to keep: that of --connection, else the address and a token asked for."""
    if server.connection:
        if url:
            raise typer.BadParameter("give URL or --connection, not both")
        return Connection.from_file(server.connection)
    url = url or server.url or os.environ.get("AMPCORE_URL") or _asked_url()
    Connection(url, "none")  # a wrong address is told before anybody types a secret
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
    """Whom the server takes the bearer for. Raises Unauthorized, ConnectionFailed."""
    from ampclient.client import Client

    with Client(connection.url, connection.token) as client:
        return client.session()


def _own_path() -> Path:
    path = login_path(os.environ)
    if path is None:
        raise NotConfigured("Expected HOME or XDG_CONFIG_HOME in the environment, received none.")
    return path


def _tell_what_comes_first(path: Path) -> None:
    """A login that something else overrides would puzzle."""
    first = [name for name in ("AMPCORE_URL", "AMPCORE_TOKEN") if os.environ.get(name)]
    file = connection_path(os.environ)
    if not first and (file.exists() or os.environ.get("AMPCORE_CONNECTION")):
        first = [f"the connection file {file}"]
    if first:
        typer.echo(f"Note: {' and '.join(first)} come first as long as they are there.", err=True)
