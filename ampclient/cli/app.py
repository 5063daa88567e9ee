"""The `ampctl` application: its commands, its global options and its error handling."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ampclient.cli import notifications, runs, shell_completion, top, workers
from ampclient.cli.access import audit, login, people, projects, retention, tokens
from ampclient.cli.exit_status import ExitStatus, exit_status_of
from ampclient.cli.jobs import commands as jobs
from ampclient.cli.models import models
from ampclient.cli.options import ServerOptions
from ampclient.cli.output.error_output import print_error
from ampclient.cli.output.tables import replace_unencodable_characters
from ampclient.cli.storage import datasets, files
from ampclient.cli.studies import studies
from ampclient.errors import AmpcoreError
from ampspec import __version__


class CommandGroup(TyperGroup):
    """The commands, with messages about options without the prefix that Typer takes over."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises BadParameter."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="ampctl",
    cls=CommandGroup,
    help="Submit, watch and compare mixed-precision training jobs on an ampcore server.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(jobs.group, name="job")
app.add_typer(studies.group, name="study")
app.add_typer(datasets.group, name="dataset")
app.add_typer(models.group, name="model")
app.add_typer(files.group, name="file")
app.add_typer(runs.group, name="run")
app.add_typer(workers.group, name="worker")
app.add_typer(notifications.group, name="notification")
app.add_typer(tokens.group, name="token")
app.add_typer(people.group, name="person")
app.add_typer(projects.group, name="project")
app.add_typer(retention.group, name="retention")
app.add_typer(audit.group, name="audit")
for name, command in jobs.COMMANDS.items():
    # The forms that people type most; the others are those of before, for one version.
    app.command(name, hidden=name not in jobs.SHORT)(command)
app.add_typer(studies.group, name="lab", hidden=True)
app.add_typer(workers.old_group, name="workers", hidden=True)
for command in (
    top.top,
    login.login,
    login.logout,
    login.whoami,
    login.version,
    shell_completion.completion,
):
    app.command()(command)


def _print_version(is_set: bool) -> None:
    if is_set:
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
            help="Connection file written by `ampserver up`.",
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
    """Submit, watch and compare mixed-precision training jobs on an ampcore server.

    The server is the first of: --url or --connection; AMPCORE_URL with AMPCORE_TOKEN; the
    connection file (AMPCORE_CONNECTION, else connection.json in AMPCORE_DATA_DIR, else
    ./ampcore-data/connection.json); the login saved by `ampctl login`. There is no option for the
    token, because other users of the machine can read command lines.

    Exit status: 0 done; 1 a job failed; 2 wrong usage; 3 refused; 4 not found; 5 unauthorized;
    6 unreachable; 7 another error; 130 interrupted, while the job keeps running.
    """
    if url and connection:
        raise typer.BadParameter("give --url or --connection, not both")
    server: ServerOptions = context.obj
    server.url, server.connection = url, connection


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit; `ExitStatus` lists with what."""
    replace_unencodable_characters()
    server = ServerOptions()
    try:
        app(args=arguments, prog_name="ampctl", obj=server)
    except (AmpcoreError, OSError) as error:
        print_error(error, server.used)
        sys.exit(exit_status_of(error))
    sys.exit(ExitStatus.DONE)
