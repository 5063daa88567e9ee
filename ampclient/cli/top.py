"""`ampctl top`: the workers and the jobs of a server, as they change."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.jobs.follow import is_temporary
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.tables import print_fitted, print_json
from ampclient.errors import AmpcoreError
from ampspec.jobs import ACTIVE, State

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampclient.progress.fleet_table import Fleet
    from ampclient.progress.job_progress import ProgressTracker

MAX_JOBS: Final = 100
"""Of the jobs that run, and of those that wait: more than a terminal has lines."""


def top(
    context: typer.Context,
    *,
    interval_s: Annotated[
        float,
        typer.Option(
            "--interval", "-d", min=0.5, metavar="SECONDS", help="The time between two updates."
        ),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print it once; so does a pipe.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the workers with their devices and the jobs that run or wait, until Ctrl-C."""
    from ampclient.progress.job_progress import ProgressTracker, no_first_step

    client = client_of(context)
    tracker = ProgressTracker(no_first_step, {})
    if as_json:
        print_json(_as_json(_read(client, tracker)))
    elif once or not sys.stdout.isatty():
        _print(_read(client, tracker))
    else:
        _show(client, tracker, interval_s)


def _read(client: "Client", tracker: "ProgressTracker") -> "Fleet":
    from ampclient.progress.fleet_table import Fleet

    workers = [worker for worker in client.workers.list() if worker.state == "online"]
    # One more than is shown says that there are more.
    running = [tracker.update(job) for job in client.jobs.list(state=ACTIVE, limit=MAX_JOBS + 1)]
    queued = list(client.jobs.list(state=State.QUEUED, limit=MAX_JOBS + 1))
    return Fleet(
        workers,
        running[:MAX_JOBS],
        queued[:MAX_JOBS],
        has_more_running=len(running) > MAX_JOBS,
        has_more_queued=len(queued) > MAX_JOBS,
    )


def _as_json(fleet: "Fleet") -> dict[str, Any]:
    return {
        "workers": [worker.to_json() for worker in fleet.workers],
        "running": [progress.job.to_json() for progress in fleet.running],
        "queued": [job.to_json() for job in fleet.queued],
        "has_more_running": fleet.has_more_running,
        "has_more_queued": fleet.has_more_queued,
    }


def _print(fleet: "Fleet") -> None:
    from ampclient.progress.fleet_table import fleet_table

    print_fitted(lambda width: fleet_table(fleet, width, None))


def _show(client: "Client", tracker: "ProgressTracker", interval_s: float) -> None:
    """Redraw the fleet at each interval; an unreachable server is retried for as long as it takes.

    What was drawn last stays on the terminal, with the reason why it is old.
    """
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from ampclient._display import formats
    from ampclient.progress.fleet_table import fleet_table

    console = Console()
    fleet, problem = _read(client, tracker), ""  # an error at the start ends the command
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                drawn = fleet_table(fleet, console.width, console.height - 1)
                live.update(Group(drawn, Text(problem, style="yellow")), refresh=True)
                time.sleep(interval_s)
                try:
                    fleet, problem = _read(client, tracker), ""
                except AmpcoreError as error:
                    if not is_temporary(error):
                        raise
                    problem = f"{formats.printable(str(error))} Retrying …"
        except KeyboardInterrupt:
            raise typer.Exit(ExitStatus.DONE) from None
