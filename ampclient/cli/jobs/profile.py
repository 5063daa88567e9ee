"""`ampctl job profile`: profile the next steps of a running job and print the report."""

from typing import Annotated, Final

import typer

from ampclient._job.job import Job
from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.jobs.watch import detach_on_interrupt
from ampclient.cli.options import AsJson, JobId, job_of
from ampclient.cli.output.tables import print_json
from ampclient.errors import Conflict
from ampcore.profile.report_text import report_lines
from ampspec.api.job.events import JobEvent

EVENT: Final = "profile"
COPY: Final = (
    "A job that has ended is profiled by a short copy: ampctl job clone {id} --set "
    "runtime.profile.start=10 --set train.steps=20 --watch; then ampctl job profile NEW_ID --last."
)


def profile(
    context: typer.Context,
    job_id: JobId,
    *,
    steps: Annotated[int, typer.Option(min=1, max=200, help="How many steps to profile.")] = 10,
    last: Annotated[
        bool, typer.Option("--last", help="Print the newest report; profile nothing.")
    ] = False,
    rows: Annotated[int, typer.Option(min=1, help="The longest operations to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Profile the next steps of a running job: where their time goes, how much is in 16 bit."""
    job = job_of(context, job_id)
    if not last:
        with detach_on_interrupt(f"The report will be there: ampctl job profile {job.id} --last"):
            _profile_now(job, steps)
    report = job.profile_report()
    if report is None:
        typer.echo("The job has no profile.", err=True)
        raise typer.Exit(ExitStatus.FAILED)
    if as_json:
        print_json(report)
    else:
        typer.echo("\n".join(report_lines(report, rows=rows)))


def _profile_now(job: Job, steps: int) -> None:
    """Request a profile and wait for its report; exits if there will be none."""
    from ampclient._job.wait import wait_for

    report_count, seq = len(_reports(job)), max((event.seq for event in job.events()), default=0)
    try:
        job.profile(steps)
    except Conflict:
        if job.state.is_terminal:
            typer.echo(COPY.format(id=job.id), err=True)
        raise
    typer.echo(f"Profiling {steps} steps of job {job.id} …", err=True)
    _wait_for_event(job, seq)
    # Its file is uploaded after the event.
    wait_for([job], done=lambda view: view.state.is_terminal or len(_reports(job)) > report_count)


def _wait_for_event(job: Job, seq: int) -> None:
    from ampspec.telemetry.events import NO_PROFILE

    for event in job.follow(kinds=("events",), after=seq):
        if not isinstance(event, JobEvent):
            continue
        if event.type == EVENT:
            return
        if event.type == "warning" and event.data.get("code") in NO_PROFILE:
            typer.echo(event.data["message"], err=True)
            raise typer.Exit(ExitStatus.FAILED)
    typer.echo("The job ended before the profile.", err=True)
    raise typer.Exit(ExitStatus.FAILED)


def _reports(job: Job) -> list[str]:
    return [
        file.path
        for file in job.artifacts()
        if file.kind == EVENT and file.path.endswith("/report.json")
    ]
