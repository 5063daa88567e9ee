"""The `ampctl` application: its commands, its global options and its error handling."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ampclient.cli import shell_completion, workers
from ampclient.cli.access import audit, login, projects, tokens
from ampclient.cli.jobs import actions as job_actions
from ampclient.cli.jobs import (
    artifacts,
    compare,
    evaluations,
    explain,
    export,
    jobs,
    profile,
    ranges,
    records,
    watch,
)
from ampclient.cli.jobs import bulk as bulk_jobs
from ampclient.cli.options import ServerOptions
from ampclient.cli.output.error_output import print_error
from ampclient.cli.output.tables import replace_unencodable_characters
from ampclient.cli.storage import datasets, files
from ampclient.cli.studies import studies as lab
from ampclient.cli.submit import submit
from ampclient.errors import AmpcoreError
from ampspec import __version__

app = typer.Typer(
    name="ampctl",
    help="Submit, watch and compare mixed-precision training jobs on an ampcore server.",
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
    records.logs,
    records.steps,
    evaluations.evaluations,
    ranges.ranges,
    export.export,
    records.events,
    records.attempts,
    artifacts.artifacts,
    artifacts.download,
    profile.profile,
    job_actions.cancel,
    job_actions.pause,
    job_actions.resume,
    job_actions.retry,
    job_actions.clone,
    job_actions.extend,
    explain.explain,
    job_actions.edit,
    job_actions.delete,
    bulk_jobs.cancel_many,
    bulk_jobs.delete_many,
):
    app.command(command.__name__.rstrip("_").replace("_", "-"))(command)
app.add_typer(lab.group, name="lab")
app.add_typer(datasets.group, name="dataset")
app.add_typer(files.group, name="file")
app.add_typer(workers.group, name="workers")
app.add_typer(tokens.group, name="token")
app.add_typer(projects.group, name="project")
for last in (
    audit.audit,
    login.login,
    login.logout,
    login.whoami,
    login.version,
    shell_completion.completion,
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
    """
    if url and connection:
        raise typer.BadParameter("give --url or --connection, not both")
    server: ServerOptions = context.obj
    server.url, server.connection = url, connection


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit.

    Exit status 0: done (with --watch: every job succeeded); 1: refused, failed or cancelled; 2:
    wrong usage; 130: interrupted by Ctrl-C, while the job keeps running.
    """
    replace_unencodable_characters()
    server = ServerOptions()
    try:
        app(args=arguments, prog_name="ampctl", obj=server)
    except (AmpcoreError, OSError) as error:
        print_error(error, server.used)
        sys.exit(1)
    sys.exit(0)
