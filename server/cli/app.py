"""`ampserver`: run the whole stack or its parts. Heavy imports are inside the commands."""

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import ampspec
from infra.defaults import DEFAULT_HOST, DEFAULT_PORT, data_dir_from_environment
from infra.isolation import hide_memory
from server.cli.access import project_app, token_app
from server.cli.backup import backup, restore
from server.cli.doctor import doctor
from server.cli.terminal import CommandGroup, fail, read_settings
from server.embedded.data_folder import DataFolder
from server.serve import StartFailed

app = typer.Typer(
    name="ampserver",
    cls=CommandGroup,
    help="Mixed-precision training as a service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(token_app, name="token")
app.add_typer(project_app, name="project")
app.command()(doctor)
app.command()(backup)
app.command()(restore)

Port = Annotated[
    int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 picks a free one.")
]


def _folder(text: str) -> Path:
    """The value of --data; an empty one would mean the current folder."""
    if not text.strip():
        raise typer.BadParameter("expected a folder, received an empty name.")
    return Path(text)


def _job_id(text: str) -> str:
    """The value of --job; an empty one would mean the jobs of all queues."""
    if not text.strip():
        raise typer.BadParameter("expected the id of a job, received an empty one.")
    return text


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"ampserver {ampspec.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command()
def up(
    data: Annotated[
        Path | None,
        typer.Option(
            parser=_folder,
            metavar="FOLDER",
            help="Data folder. Default: AMPCORE_DATA_DIR, else ./ampcore-data.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", "--slots", min=1, help="Number of jobs that run at the same time."
        ),
    ] = 1,
) -> None:
    """Run the whole service on this machine: SQLite, Redis, the API and a worker."""
    from server.embedded.stack import up as run

    hide_memory()
    try:
        run(DataFolder(data or data_dir_from_environment()), host, port, workers)
    except StartFailed as error:
        fail(error)
    _exit_now()


@app.command()
def api() -> None:
    """Run only the API. AMPCORE_* variables set the database, Redis and the listening address."""
    from infra.log_config import set_up_logging
    from server.http.serving.memory import limit_memory
    from server.serve import listen, serve, url_of

    limit_memory()
    hide_memory()  # not inherited by child processes: they contain passwords
    settings = read_settings()
    set_up_logging(settings.log_format)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the same exit as after Ctrl-C
    try:
        listener = listen(settings.host, settings.port)
    except StartFailed as error:
        fail(error)
    log = logging.getLogger(__name__)
    try:
        serve(settings, listener, lambda: log.info("ampcore is ready at %s", url_of(listener)))
    except KeyboardInterrupt:
        log.info("stopped")
    _exit_now()


@app.command()
def worker(
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            parser=_job_id,
            metavar="ID",
            show_default="AMPCORE_WORKER_JOB, else the jobs of its queues",
            help="Run this job alone, then exit: 0 once it was run, 3 if it was not.",
        ),
    ] = None,
) -> None:
    """Run only a worker. AMPCORE_* variables set the database, Redis and the number of slots."""
    if job is not None:
        os.environ["AMPCORE_WORKER_JOB"] = job
    sys.stdout.flush()
    # -P: a worker.py in the current folder must not stand in for ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "worker"])  # noqa: S606 - no shell needed


@app.command()
def schedule(
    engine: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENGINE]", show_default="AMPCORE_SCHEDULER", help="slurm or kubernetes."
        ),
    ] = None,
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with the queues to serve.",
            show_default="AMPCORE_SCHEDULER_CONFIG",
            dir_okay=False,
            exists=True,
        ),
    ] = None,
) -> None:
    """Let a batch system give the jobs of some queues their devices, until it is stopped."""
    from infra.log_config import set_up_logging
    from infra.settings import SettingsInvalid
    from server.allocations.engines import ENGINES, read_plan
    from server.allocations.run import run_scheduler

    if engine is not None and engine not in ENGINES:
        expected = " or ".join(ENGINES)
        raise typer.BadParameter(f"expected {expected}, received {engine!r}.", param_hint="ENGINE")
    settings = read_settings()
    try:
        plan = read_plan(engine or settings.scheduler, config or settings.scheduler_config)
    except SettingsInvalid as error:
        fail(error)
    set_up_logging(settings.log_format)
    run_scheduler(settings.database_url, plan)
    _exit_now()


@app.command()
def migrate(
    wait: Annotated[
        float,
        typer.Option(
            "--wait", min=0, metavar="SECONDS", help="Wait so long for PostgreSQL to answer."
        ),
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the revisions that would run.")
    ] = False,
) -> None:
    """Create the database tables, or upgrade older ones, while servers and workers run."""
    from server.cli.database import (
        DatabaseUnusable,
        database_errors_as_unusable,
        describe_database,
        wait_for_database,
    )
    from server.migrate import migrate as run
    from server.migrate import plan
    from server.schema import HEAD

    url = read_settings().database_url
    try:
        if wait:
            wait_for_database(url, wait)
        with database_errors_as_unusable(url):
            if dry_run:
                typer.echo("\n".join(plan(url)))
                return
            run(url, report=lambda text: typer.echo(text, err=True))
    except DatabaseUnusable as error:
        fail(error)
    typer.echo(f"Database: {describe_database(url)}", err=True)
    typer.echo(f"The schema is at revision {HEAD}.")


def main() -> None:
    """The entry point."""
    app()


def _exit_now() -> NoReturn:
    """Exit at once: a thread that waits for a database must not keep the process alive."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
