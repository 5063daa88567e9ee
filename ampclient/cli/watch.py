"""`ampctl watch`: follow a job to its end; Ctrl-C leaves it alone."""

from typing import TYPE_CHECKING

import typer

from ampclient.cli.connect import AsJson, JobId, client_of
from ampclient.cli.output import print_job, print_json
from ampclient.errors import ConnectionFailed

if TYPE_CHECKING:
    from ampclient.job import Job

DETACHED = 130  # what a shell reports for a program that SIGINT ended


def watch(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Follow a job to its end; exit 0 only if it succeeds. Ctrl-C does not cancel it."""
    watch_to_the_end(client_of(context).jobs.get(job_id), as_json=as_json)


def watch_to_the_end(job: "Job", *, as_json: bool) -> None:
    """Show the progress on standard error, then the ended job on standard output, and exit."""
    resume = f"The job goes on. Watch it again with: ampctl watch {job.id}"
    try:
        ended = job.wait(progress=True)
    except KeyboardInterrupt:
        typer.echo(f"\nDetached. {resume}", err=True)
        raise typer.Exit(DETACHED) from None
    except ConnectionFailed:
        typer.echo(resume, err=True)
        raise
    if as_json:
        print_json(ended.to_json())
    else:
        print_job(ended)
    raise typer.Exit(0 if ended.state == "succeeded" else 1)
