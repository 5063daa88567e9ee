"""`ampctl logs`: the log of a job, or the lines of several jobs as they arrive."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ampclient._display import formats
from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.jobs.watch import all_succeeded, detach_on_interrupt
from ampclient.cli.options import Attempt, client_of, connection_of, job_in
from ampclient.cli.output.record_output import LogLines, print_log
from ampclient.cli.shell_completion import job_ids
from ampspec.jobs import ACTIVE

if TYPE_CHECKING:
    from ampclient._job.job import AsyncJob, Job
    from ampclient.client import AsyncClient, Client

MAX_JOBS: Final = 50
"""Jobs whose logs are followed at the same time: each holds a connection to the server."""
NEW_JOBS_S: Final = 2.0
"""How often `logs --all -f` looks for jobs that have started."""

JobIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Job ids.", show_default=False, autocompletion=job_ids()),
]


def logs(
    context: typer.Context,
    ids: JobIds = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until the jobs end.")
    ] = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Of all jobs that run; with -f, also of those that start later."
        ),
    ] = False,
    attempt: Attempt = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document per line.")
    ] = False,
) -> None:
    """Print a job's log; with -f, follow it and exit 0 only if the job succeeds.

    With several jobs each line begins with the name of its job, or has its id with --json.
    """
    if every == bool(ids):
        raise typer.BadParameter("give the ids of jobs, or --all")
    client = client_of(context)
    jobs = _running(client) if every else [job_in(client, id_) for id_ in dict.fromkeys(ids or ())]
    if every and not (jobs or follow):
        typer.echo("No job runs.", err=True)
    elif len(jobs) == 1 and not every:
        _print_one(jobs[0], follow=follow, attempt=attempt, as_json=as_json)
    elif follow:
        if not jobs:
            typer.echo("No job runs. Waiting for jobs that start; Ctrl-C ends it.", err=True)
        _follow(context, jobs, every=every, attempt=attempt, as_json=as_json)
    else:
        lines = LogLines(_names(jobs), as_json=as_json)
        for job in jobs:
            for entry in job.logs(attempt=attempt):
                lines.print(job.id, entry)
            lines.end(job.id)


def _print_one(job: "Job", *, follow: bool, attempt: int | None, as_json: bool) -> None:
    entries = job.logs(follow=follow, attempt=attempt)
    if not follow:
        if not print_log(entries, as_json=as_json):
            typer.echo(_where_to_look(job, attempt), err=True)
        return
    with detach_on_interrupt(
        f"The job keeps running. Follow it again with: ampctl logs -f {job.id}"
    ):
        print_log(entries, as_json=as_json)
        ended = job.refresh()
    if ended.state != "succeeded":
        why = f": {ended.message}" if ended.message else "."
        typer.echo(f"{ended.id} is {ended.state}{why}", err=True)
        raise typer.Exit(ExitStatus.FAILED)


def _where_to_look(job: "Job", attempt: int | None) -> str:
    """That a log is empty, as of built-in models, whose trainer prints nothing, and what is not."""
    if attempt is not None and attempt > job.attempt:
        return f"The log is empty: attempt {attempt} has not started."
    if not job.attempt:
        return "The log is empty: no worker has started the job yet."
    return (
        "The log is empty: nothing was printed. What the job did is in its events: "
        f"ampctl events {job.id}, or ampctl {'get' if job.state.is_terminal else 'watch'} {job.id}"
    )


def _running(client: "Client") -> "list[Job]":
    jobs = list(client.jobs.list(state=ACTIVE, limit=MAX_JOBS + 1))
    if len(jobs) > MAX_JOBS:
        typer.echo(f"More than {MAX_JOBS} jobs run; only the newest are printed.", err=True)
    return jobs[:MAX_JOBS]


def _names(jobs: "Sequence[Job | AsyncJob]") -> dict[str, str]:
    from ampclient.progress import distinct_names

    return {id_: formats.printable(name) for id_, name in distinct_names(jobs).items()}


def _follow(
    context: typer.Context,
    jobs: "Sequence[Job]",
    *,
    every: bool,
    attempt: int | None,
    as_json: bool,
) -> None:
    """Follow the jobs at the same time; with `every`, until Ctrl-C."""
    from ampclient.client import AsyncClient

    again = "--all" if every else " ".join(job.id for job in jobs)
    connection = connection_of(context)
    lines = LogLines(_names(jobs), as_json=as_json)

    async def print_all() -> "list[AsyncJob]":
        async with AsyncClient(connection.url, connection.token) as client:
            followed = _Followed(lines, attempt)
            source = followed.started(client) if every else _listed(client, jobs)
            return await followed.print(source)

    with detach_on_interrupt(f"The jobs keep running. Follow them with: ampctl logs -f {again}"):
        ended = asyncio.run(print_all())
    raise typer.Exit(all_succeeded(ended))


async def _listed(client: "AsyncClient", jobs: "Sequence[Job]") -> "AsyncIterator[AsyncJob]":
    for job in jobs:
        yield await client.jobs.get(job.id)


class _Followed:
    """Jobs whose entries are printed at the same time, each entry once."""

    def __init__(self, lines: LogLines, attempt: int | None) -> None:
        self._lines, self._attempt = lines, attempt
        self._tasks: dict[str, asyncio.Task[AsyncJob]] = {}
        self._last_seqs: dict[str, int] = {}

    async def started(self, client: "AsyncClient") -> "AsyncIterator[AsyncJob]":
        """The jobs that run and are not followed, now and later."""
        while True:
            async for job in client.jobs.list(state=ACTIVE, limit=MAX_JOBS):
                if job.id not in self._tasks or self._tasks[job.id].done():
                    yield job
            await asyncio.sleep(NEW_JOBS_S)

    async def print(self, jobs: "AsyncIterator[AsyncJob]") -> "list[AsyncJob]":
        """Print the entries of all jobs as they arrive; returns the jobs once all have ended."""
        try:
            async with asyncio.TaskGroup() as group:
                async for job in jobs:
                    self._lines.add(_names([job]))
                    self._tasks[job.id] = group.create_task(self._print_job(job))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in self._tasks.values()]

    async def _print_job(self, job: "AsyncJob") -> "AsyncJob":
        printed_seq = self._last_seqs.get(job.id)  # None unless a job is retried
        async for entry in job.logs(follow=True, after=printed_seq, attempt=self._attempt):
            self._last_seqs[job.id] = entry.seq
            self._lines.print(job.id, entry)
        self._lines.end(job.id)
        return await job.refresh()
