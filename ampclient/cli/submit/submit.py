"""`ampctl submit` and `validate`: queue jobs, or only validate a spec."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

import typer

from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.jobs.watch import Watch, all_succeeded, followed, print_several, watch_to_the_end
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.job_output import print_validated
from ampclient.cli.output.tables import print_json
from ampclient.cli.submit.grid import variants
from ampclient.cli.submit.submissions import (
    SpecsInvalid,
    SpecToSubmit,
    as_usage_error,
    build_submissions,
    parse_spec_file,
    validate_all,
    with_code,
    with_weights,
)
from ampclient.errors import AmpcoreError

if TYPE_CHECKING:
    from ampclient._job.job import Job
    from ampclient.client import Client

MAX_COMPARED: Final = 100

SpecFile = Annotated[
    typer.FileBinaryRead,
    typer.Argument(
        metavar="FILE",
        help="Job spec in YAML or JSON; - reads standard input.",
        show_default=False,
    ),
]
SpecFiles = Annotated[
    list[typer.FileBinaryRead],
    typer.Argument(
        metavar="FILE",
        help="Job specs in YAML or JSON; - reads standard input.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set one field of the spec: --set precision.policy=float32. May be repeated.",
        show_default=False,
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="PATH=VALUE,VALUE",
        help="Queue one job per value: --grid precision.policy=float32,mixed_bfloat16. May be "
        "repeated: one job per combination.",
        show_default=False,
    ),
]
CodeFolder = Annotated[
    Path | None,
    typer.Option(
        "--code",
        metavar="FOLDER",
        exists=True,
        file_okay=False,
        help="Folder with the Python modules of a model of kind bundle; uploaded if it is new.",
        show_default=False,
    ),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Start from the weights in this safetensors file; uploaded if it is new.",
        show_default=False,
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        help="Unique key of your choice: the same command with the same key queues no second job.",
        show_default=False,
    ),
]


def submit(
    context: typer.Context,
    files: SpecFiles,
    *,
    assignments: Assignments = None,
    grid: Grid = None,
    key: IdempotencyKey = None,
    code: CodeFolder = None,
    weights: WeightsFile = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Validate and print what would be queued; queue nothing."),
    ] = False,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Queue jobs and print their ids, one per line. If any spec is invalid, nothing is queued.

    With --wait or --watch the result is printed instead; a script that needs the id too submits
    first, and then runs `ampctl watch ID`. --json prints the job, or a list if there are several.
    """
    try:
        contents = [(file.name, file.read()) for file in files]
        submissions = build_submissions(contents, assignments or (), variants(grid or ()))
        client = client_of(context)
        if code is not None:
            submissions = with_code(client, submissions, code, upload=not dry_run)
        if weights is not None:
            submissions = with_weights(client, submissions, weights, upload=not dry_run)
        if dry_run or len(submissions) > 1 or submissions[0].suffix:
            submissions = validate_all(client, submissions)
    except SpecsInvalid as refused:
        _print_problems(refused)
        raise typer.Exit(ExitStatus.REFUSED) from None
    if dry_run:
        _print_dry_run(submissions, as_json=as_json)
    elif len(submissions) == 1:
        job = client.jobs.submit(submissions[0].document, idempotency_key=key)
        print_posted(job, watch=watch, as_json=as_json)
    else:
        _print_all(_submitted(client, submissions, key), watch=watch, as_json=as_json)


def _print_dry_run(submissions: Sequence[SpecToSubmit], *, as_json: bool) -> None:
    if as_json:
        documents = [submission.document for submission in submissions]
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for submission in submissions:
        model = submission.document.get("model")
        bundle = model.get("bundle") if isinstance(model, dict) else None
        typer.echo(f"{submission.source}: valid{f', {bundle}' if bundle else ''}")
    typer.echo("Nothing was queued.", err=True)


def print_posted(job: "Job", *, watch: bool, as_json: bool) -> None:
    """Print only the id of a new job, for scripts; or watch it until it ends."""
    if watch:
        typer.echo(f"Queued {job.id}. Ctrl-C stops watching; the job keeps running.", err=True)
        watch_to_the_end([job], as_json=as_json)
    elif as_json:
        print_json(job.to_json())
    else:
        typer.echo(job.id)
        typer.echo(f"Queued. Watch it with: ampctl watch {job.id}", err=True)


def validate(
    context: typer.Context,
    file: SpecFile,
    assignments: Assignments = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also list every layer with its dtypes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Validate a spec and estimate its memory and FLOPs, without queuing a job.

    Exit status 3 if the job could not run.
    """
    document = parse_spec_file(file.read(), assignments or ())
    validated = client_of(context).jobs.validate(document)
    if as_json:
        print_json(validated.to_json())
    else:
        print_validated(validated, layers=layers)
    if any(finding.severity == "error" for finding in validated.findings):
        raise typer.Exit(ExitStatus.REFUSED)


def parsed_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Each `path=value` as a path and its value. Raises typer.BadParameter."""
    from ampclient._spec.spec_input import parse_assignments

    with as_usage_error():
        return parse_assignments(assignments)


def _print_problems(refused: SpecsInvalid) -> None:
    for block in refused.blocks:
        for line in block:
            typer.echo(line, err=True)
    typer.echo("Nothing was queued.", err=True)


def _submitted(
    client: "Client", submissions: Sequence[SpecToSubmit], key: str | None
) -> "list[Job]":
    """Submit in order and return the jobs. If one is refused, those before it stay queued."""
    key = key or str(uuid4())
    jobs: list[Job] = []
    for number, submission in enumerate(submissions, 1):
        try:
            job = client.jobs.submit(submission.document, idempotency_key=f"{key}-{number}")
        except AmpcoreError:
            queued = " ".join(job.id for job in jobs) or "none"
            typer.echo(
                f"{submission.source} was not queued. Already queued: {queued}. Run the same "
                f"command with --idempotency-key {key} to queue the rest without duplicates.",
                err=True,
            )
            raise
        jobs.append(job)
    return jobs


def _print_all(jobs: "Sequence[Job]", *, watch: bool, as_json: bool) -> None:
    """Print only the ids, for scripts; or watch the jobs until they end."""
    ids = " ".join(job.id for job in jobs)
    if watch:
        typer.echo(
            f"Queued {len(jobs)} jobs. Ctrl-C stops watching; the jobs keep running.", err=True
        )
        jobs = followed(jobs)
    if as_json or watch:
        print_several(jobs, as_json=as_json)
    else:
        for job in jobs:
            typer.echo(job.id)
        typer.echo(f"Queued {len(jobs)} jobs. Watch them with: ampctl watch {ids}", err=True)
    compared = " ".join(job.id for job in jobs[:MAX_COMPARED])
    typer.echo(f"Compare them with: ampctl compare {compared}", err=True)
    if watch:
        raise typer.Exit(all_succeeded(jobs))
