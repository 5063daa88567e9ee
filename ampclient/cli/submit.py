"""`ampctl submit` and `validate`: queue jobs, or only check a spec."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

import typer

from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.grid import variants
from ampclient.cli.job_output import print_validated
from ampclient.cli.output import print_json
from ampclient.cli.posts import Post, Refused, checked, document_in, posts_of, wrong_usage
from ampclient.cli.watch import Watch, all_succeeded, followed, print_several, watch_to_the_end
from ampclient.errors import AmpcoreError

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampclient.job import Job

MOST_COMPARED: Final = 10

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
        help="A job for each value: --grid precision.policy=float32,mixed_bfloat16. Repeated: for "
        "each combination.",
        show_default=False,
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        help="Any text of your own: the same command with the same key queues no second job.",
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
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Queue jobs and print their ids, one a line. A mistake in any of them queues none.

    --json prints the job, of several a list.
    """
    try:
        named = [(file.name, file.read()) for file in files]
        posts = posts_of(named, assignments or (), variants(grid or ()))
        client = client_of(context)
        if len(posts) > 1 or posts[0].suffix:
            posts = checked(client, posts)
    except Refused as refused:
        _tell(refused)
        raise typer.Exit(1) from None
    if len(posts) == 1:
        job = client.jobs.submit(posts[0].document, idempotency_key=key)
        print_posted(job, watch=watch, as_json=as_json)
    else:
        _print_all(_submitted(client, posts, key), watch=watch, as_json=as_json)


def print_posted(job: "Job", *, watch: bool, as_json: bool) -> None:
    """Print the id of a new job alone, for scripts; or follow it to its end."""
    if watch:
        typer.echo(f"Queued {job.id}; Ctrl-C stops watching, not the job.", err=True)
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
    layers: Annotated[bool, typer.Option("--layers", help="Every layer and its dtypes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a spec and foretell its size; queues nothing. Exit 1 if the job could not run."""
    document = document_in(file.read(), assignments or ())
    validated = client_of(context).jobs.validate(document)
    if as_json:
        print_json(validated.to_json())
    else:
        print_validated(validated, layers=layers)
    if any(finding.severity == "error" for finding in validated.findings):
        raise typer.Exit(1)


def assigned(assignments: Sequence[str]) -> dict[str, Any]:
    """Each `path=value` as a path and its value. Wrong usage is told as such."""
    from ampclient.documents import assigned_in

    with wrong_usage():
        return assigned_in(assignments)


def _tell(refused: Refused) -> None:
    for block in refused.blocks:
        for line in block:
            typer.echo(line, err=True)
    typer.echo("Nothing was queued.", err=True)


def _submitted(client: "Client", posts: Sequence[Post], key: str | None) -> "list[Job]":
    """The jobs, in order. Where one is refused after all, those before it stay queued."""
    key = key or str(uuid4())
    jobs: list[Job] = []
    for number, post in enumerate(posts, 1):
        try:
            job = client.jobs.submit(post.document, idempotency_key=f"{key}-{number}")
        except AmpcoreError:
            queued = " ".join(job.id for job in jobs) or "none"
            typer.echo(
                f"{post.source} was not queued. Queued before it: {queued}. The same command with "
                f"--idempotency-key {key} finds these and queues the rest.",
                err=True,
            )
            raise
        jobs.append(job)
    return jobs


def _print_all(jobs: "Sequence[Job]", *, watch: bool, as_json: bool) -> None:
    """Print the ids alone, for scripts; or follow the jobs to their ends."""
    ids = " ".join(job.id for job in jobs)
    if watch:
        typer.echo(f"Queued {len(jobs)} jobs; Ctrl-C stops watching, not the jobs.", err=True)
        jobs = followed(jobs)
    if as_json or watch:
        print_several(jobs, as_json=as_json)
    else:
        for job in jobs:
            typer.echo(job.id)
        typer.echo(f"Queued {len(jobs)} jobs. Watch them with: ampctl watch {ids}", err=True)
    compared = " ".join(job.id for job in jobs[:MOST_COMPARED])
    typer.echo(f"Compare them with: ampctl compare {compared}", err=True)
    if watch:
        raise typer.Exit(all_succeeded(jobs))
