"""`ampctl watch`: follow a job to its end; Ctrl-C leaves it alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient.cli.connect import AsJson, JobId, client_of
from ampclient.cli.job_output import print_job
from ampclient.cli.output import print_json
from ampclient.errors import ConnectionFailed

if TYPE_CHECKING:
    from ampclient.job import Job

DETACHED = 130  # what a shell reports for a program that SIGINT ended

Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Follow the job; exit 0 only if it succeeds.")
]


def watch(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Follow a job to its end; exit 0 only if it succeeds. Ctrl-C does not cancel it."""
    watch_to_the_end(client_of(context).jobs.get(job_id), as_json=as_json)


def watch_to_the_end(job: "Job", *, as_json: bool) -> None:
    """Show the progress on standard error, then the ended job on standard output, and exit."""
    with detaching(f"The job goes on. Watch it again with: ampctl watch {job.id}"):
        ended = job.wait(progress=True)
    if as_json:
        print_json(ended.to_json())
    else:
        print_job(ended)
    raise typer.Exit(0 if ended.state == "succeeded" else 1)


def reached(job: "Job", done: "Callable[[Job], bool]") -> "Job":
    """The job once `done` holds of it, which means that its process has ended."""
    from ampclient.wait import wait_for

    with detaching(f"What was asked for goes on. See how it is with: ampctl get {job.id}"):
        typer.echo(f"{job.id} is {job.state}; waiting for its process to end …", err=True)
        [job] = wait_for([job], done=done)
    return job


@contextmanager
def detaching(resume: str) -> Iterator[None]:
    """Ctrl-C, or a server that is away too long, ends the command and nothing else.

    `resume` says how to look again.
    """
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nDetached. {resume}", err=True)
        raise typer.Exit(DETACHED) from None
    except ConnectionFailed:
        typer.echo(resume, err=True)
        raise
