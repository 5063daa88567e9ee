"""`ampctl watch`: follow jobs until they end; Ctrl-C does not cancel them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ampclient._display.formats import printable
from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.options import AsJson, client_of, job_in
from ampclient.cli.output.job_output import print_job, print_jobs
from ampclient.cli.output.tables import print_json
from ampclient.cli.shell_completion import job_ids
from ampclient.errors import AmpcoreError, ConnectionFailed
from ampspec.jobs import State
from ampspec.telemetry.events import RESULT_WARNINGS, EventType

if TYPE_CHECKING:
    from ampclient._job.job import Job
    from ampclient._job.view import JobView
    from ampclient.client import Client

JobIds = Annotated[
    list[str],
    typer.Argument(metavar="ID", help="Job ids.", show_default=False, autocompletion=job_ids()),
]
WAIT_HELP: Final = "Wait until it is done, with progress; exit 0 only if it succeeded."
Wait = Annotated[bool, typer.Option("--wait", "-w", help=WAIT_HELP)]
Watch = Annotated[bool, typer.Option("--wait", "--watch", "-w", help=WAIT_HELP)]
"""The same of a job, under the name that it had before, too."""
MAX_WARNINGS_READ: Final = 1000


def watch(
    context: typer.Context,
    job_ids: JobIds,
    *,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            help="Also send a message when a job ends: https://…, mailto:NAME@HOST, or a service "
            "such as slack://…. The server sends it, so the command may end before. Repeatable.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch jobs until they end; exit 0 only if all succeed. Ctrl-C does not cancel them.

    In a terminal: live plots of loss and loss scale, with every skipped step; in a pipe: one line
    per update. --json prints the ended job, or a list if there are several.
    """
    client = client_of(context)
    jobs = [job_in(client, job_id) for job_id in dict.fromkeys(job_ids)]
    notify_at_end(client, jobs, notify or ())
    watch_to_the_end(jobs, as_json=as_json)


def notify_at_end(client: "Client", jobs: "Sequence[Job]", targets: Sequence[str]) -> None:
    """Have the server send a message to each target when each job ends."""
    for target in targets:
        for job in jobs:
            subscription = client.notifications.create(target, job=job.id)
            typer.echo(f"{job.id}: a message goes to {subscription.target} at its end", err=True)
            if subscription.secret is not None:
                typer.echo(f"{job.id}: it is signed with {subscription.secret}", err=True)


def watch_to_the_end(jobs: "Sequence[Job]", *, as_json: bool) -> None:
    """Show progress on standard error, then print the ended jobs on standard output, and exit."""
    ended = followed(jobs)
    if len(ended) > 1:
        print_several(ended, as_json=as_json)
    elif as_json:
        print_json(ended[0].to_json())
    else:
        print_job(ended[0], warnings=_readable_warnings(ended[0]))
    raise typer.Exit(all_succeeded(ended))


def print_several(jobs: "Sequence[Job]", *, as_json: bool) -> None:
    """Print the jobs as a table with distinct names, or as a JSON list."""
    from ampclient.progress import distinct_names

    if as_json:
        print_json([job.to_json() for job in jobs])
    else:
        names = distinct_names(jobs)
        print_jobs(jobs, names)
        for job in jobs:
            for warning in _readable_warnings(job) if job.state.is_terminal else ():
                text = printable(f"{names[job.id]}: warning: {' '.join(warning.split())}")
                typer.echo(text, err=True)


def result_warnings(job: "Job") -> list[str]:
    """What the last attempt warned of that concerns the result, in order."""
    if not job.attempt:
        return []
    messages = [
        str(event.data.get("message") or event.data["code"])
        for event in job.events(type=EventType.WARNING, limit=MAX_WARNINGS_READ)
        if event.attempt == job.attempt and event.data.get("code") in RESULT_WARNINGS
    ]
    return list(dict.fromkeys(messages))


def _readable_warnings(job: "Job") -> list[str]:
    """The same; none where the server does not respond: the result must be shown anyway."""
    try:
        return result_warnings(job)
    except AmpcoreError:
        return []


def followed(jobs: "Sequence[Job]") -> "list[Job]":
    """Follow the jobs and return them once they have ended; Ctrl-C ends the command."""
    from ampclient.cli.jobs.follow import follow

    goes_on = "The jobs keep running" if len(jobs) > 1 else "The job keeps running"
    ids = " ".join(job.id for job in jobs)
    with detach_on_interrupt(f"{goes_on}. Watch again with: ampctl watch {ids}"):
        return follow(jobs)


def all_succeeded(ended: "Sequence[JobView]") -> ExitStatus:
    """The exit status: 0 only if all jobs succeeded."""
    succeeded = all(job.state is State.SUCCEEDED for job in ended)
    return ExitStatus.DONE if succeeded else ExitStatus.FAILED


def wait_for_state(job: "Job", done: "Callable[[Job], bool]") -> "Job":
    """Wait until `done` is true for the job: its process has ended."""
    from ampclient._job.wait import wait_for

    with detach_on_interrupt(
        f"The request is still in progress. Check it with: ampctl get {job.id}"
    ):
        typer.echo(f"{job.id} is {job.state}; waiting for its process to end …", err=True)
        [job] = wait_for([job], done=done)
    return job


@contextmanager
def detach_on_interrupt(resume: str) -> Iterator[None]:
    """On Ctrl-C or a lost connection, end the command only and print `resume`.

    `resume` says how to continue.
    """
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nDetached. {resume}", err=True)
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    except ConnectionFailed:
        typer.echo(resume, err=True)
        raise
