"""The commands together, and what becomes of their errors."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ampclient.cli import (
    audit,
    compare,
    completion,
    export,
    files,
    history,
    jobs,
    login,
    projects,
    steer,
    submit,
    system,
    tokens,
    watch,
    workers,
)
from ampclient.cli.connect import Server
from ampclient.cli.encoding import speak_the_terminals_encoding
from ampclient.cli.problems import print_error
from ampclient.errors import AmpcoreError
from ampcore import __version__

app = typer.Typer(
    name="ampctl",
    help="Train in mixed precision on an ampcore server and see every step.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (
    submit.submit,
    submit.validate,
    jobs.list_,
    jobs.get,
    watch.watch,
    compare.compare,
    history.logs,
    history.steps,
    export.export,
    history.events,
    history.attempts,
    files.artifacts,
    files.download,
    steer.cancel,
    steer.pause,
    steer.resume,
    steer.retry,
    steer.clone,
    steer.edit,
    steer.delete,
):
    app.command(command.__name__.rstrip("_"))(command)
app.add_typer(workers.group, name="workers")
app.add_typer(tokens.group, name="token")
app.add_typer(projects.group, name="project")
for last in (
    audit.audit,
    login.login,
    login.logout,
    system.whoami,
    system.version,
    completion.completion,
):
    app.command()(last)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ampctl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(help="Address of the server.", metavar="URL", show_default=False)
    ] = None,
    connection: Annotated[
        Path | None,
        typer.Option(
            help="Connection file, as `ampserver up` writes it.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print ampctl's own version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Train in mixed precision on an ampcore server and see every step.

    The server is the one that --url or --connection names, else that of AMPCORE_URL and
    AMPCORE_TOKEN, else that of the connection file (AMPCORE_CONNECTION, else connection.json in
    AMPCORE_DATA_DIR, else ./ampcore-data/connection.json), else that of `ampctl login`. A token is
    never an option, since other users of a machine can read its command lines.
    """
    if url and connection:
        raise typer.BadParameter("give --url or --connection, not both")
    server: Server = context.obj
    server.url, server.connection = url, connection


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit.

    0: done (with --watch: every job succeeded); 1: refused, failed or cancelled; 2: wrong usage;
    130: interrupted, while the job goes on.
    """
    speak_the_terminals_encoding()
    server = Server()
    try:
        app(args=arguments, prog_name="ampctl", obj=server)
    except (AmpcoreError, OSError) as error:
        print_error(error, server.used)
        sys.exit(1)
    sys.exit(0)
