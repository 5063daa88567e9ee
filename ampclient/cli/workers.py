"""`ampctl workers` and `workers drain`: list the workers, drain one."""

from typing import Annotated

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.server_output import print_workers
from ampclient.cli.output.tables import print_json
from ampclient.cli.shell_completion import worker_ids

group = typer.Typer(help="List the workers that are online; drain one.")


@group.callback(invoke_without_command=True)
def workers(
    context: typer.Context,
    every: Annotated[
        bool, typer.Option("--all", help="Also show lost and stopped workers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the workers that are online; drain one."""
    if context.invoked_subcommand is not None:
        return
    known = list(client_of(context).workers.list())
    found = known if every else [worker for worker in known if worker.state == "online"]
    if as_json:
        print_json([worker.to_json() for worker in found])
    elif found:
        print_workers(found)
    else:
        typer.echo("No worker is online.", err=True)
    if others := len(known) - len(found):
        typer.echo(f"{others} lost or stopped workers not shown; use --all to see them.", err=True)


@group.command()
def drain(
    context: typer.Context,
    worker_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Worker id.", show_default=False, autocompletion=worker_ids
        ),
    ],
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0,
            show_default="its setting AMPCORE_DRAIN_TIMEOUT_S",
            help="How long it may store the files of its jobs.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Drain a worker: it takes no new jobs, saves checkpoints of its running jobs and exits.

    Its jobs return to the queue. Steps after the last stored checkpoint are trained again only if
    the worker cannot store a new one in time; the command lists them.
    """
    worker = client_of(context).workers.drain(worker_id, timeout_s=timeout_s)
    if as_json:
        print_json(worker.to_json())
        return
    typer.echo(
        f"Draining {worker.id} on {worker.hostname}; "
        f"jobs to return to the queue: {len(worker.jobs)}"
    )
    for job in worker.unsaved:
        stored = f"{job.checkpoint_step} of them" if job.checkpoint_step else "none of them"
        typer.echo(f"  {job.job}: {job.step} steps trained, {stored} in a stored checkpoint so far")
