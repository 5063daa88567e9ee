"""`ampctl worker`: list the workers, show one, drain one."""

from operator import attrgetter
from typing import Annotated

import typer

from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_item, print_items
from ampclient.cli.output.server_output import print_workers
from ampclient.cli.output.tables import print_json
from ampclient.cli.shell_completion import worker_ids

group = typer.Typer(help="List the workers, show one, drain one.", no_args_is_help=True)
old_group = typer.Typer(help="The name of `worker` before.", no_args_is_help=False)

WorkerId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Worker id.", show_default=False, autocompletion=worker_ids),
]


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Also show lost and stopped workers.")
    ] = False,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the workers that are online."""
    if context.invoked_subcommand is not None:
        return
    workers = list(client_of(context).workers.list())
    shown = [worker for worker in workers if every or worker.state == "online"][:limit]
    print_items(
        shown,
        chosen(output, as_json=as_json),
        print_workers,
        name=attrgetter("id"),
        empty="No worker is online.",
    )
    if not every and (count := sum(worker.state != "online" for worker in workers)):
        typer.echo(f"{count} lost or stopped workers not shown; use --all to see them.", err=True)


@group.command()
def get(
    context: typer.Context,
    worker_id: WorkerId,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show one worker."""
    print_item(
        client_of(context).workers.get(worker_id),
        chosen(output, as_json=as_json),
        lambda worker: print_workers([worker]),
        name=attrgetter("id"),
    )


@group.command()
def drain(
    context: typer.Context,
    worker_id: WorkerId,
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
    worker = client_of(context).workers.drain(worker_id, drain_timeout_s=timeout_s)
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


old_group.callback(invoke_without_command=True)(list_)  # `ampctl workers`
old_group.command()(drain)
