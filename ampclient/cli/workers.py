"""`ampctl workers` and `workers drain`: who trains, and how one of them is sent home."""

from typing import Annotated

import typer

from ampclient.cli.completing import worker_ids
from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.output import print_json
from ampclient.cli.service_output import print_workers

group = typer.Typer(help="List the workers that are online; drain one.")


@group.callback(invoke_without_command=True)
def workers(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Lost and stopped ones as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the workers that are online; drain one."""
    if context.invoked_subcommand is not None:
        return
    known = client_of(context).workers.list()
    found = known if every else [worker for worker in known if worker.state == "online"]
    if as_json:
        print_json([worker.to_json() for worker in found])
    elif found:
        print_workers(found)
    else:
        typer.echo("No worker is online.", err=True)
    if others := len(known) - len(found):
        typer.echo(f"Not shown: {others} lost or stopped; --all shows them.", err=True)


@group.command()
def drain(
    context: typer.Context,
    worker_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The worker's id.", show_default=False, autocompletion=worker_ids
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Let a worker take no more jobs, give its own back at a checkpoint, and end."""
    worker = client_of(context).workers.drain(worker_id)
    if as_json:
        print_json(worker.to_json())
    else:
        typer.echo(
            f"{worker.id} on {worker.hostname} drains; jobs to give back: {len(worker.jobs)}"
        )
