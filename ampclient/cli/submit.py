"""`ampctl submit` and `validate`: queue a job, or only check its spec."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.job_output import print_validated
from ampclient.cli.output import print_json
from ampclient.cli.watch import Watch, watch_to_the_end
from ampclient.errors import InvalidSpec

if TYPE_CHECKING:
    from ampclient.job import Job

SpecFile = Annotated[
    typer.FileBinaryRead,
    typer.Argument(
        metavar="FILE",
        help="Job spec in YAML or JSON; - reads standard input.",
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
    file: SpecFile,
    *,
    assignments: Assignments = None,
    key: IdempotencyKey = None,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Queue a job and print its id."""
    document = _document(file.read(), assignments or ())
    job = client_of(context).jobs.submit(document, idempotency_key=key)
    print_posted(job, watch=watch, as_json=as_json)


def print_posted(job: "Job", *, watch: bool, as_json: bool) -> None:
    """Print the id of a new job alone, for scripts; or follow it to its end."""
    if watch:
        typer.echo(f"Queued {job.id}; Ctrl-C stops watching, not the job.", err=True)
        watch_to_the_end(job, as_json=as_json)
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
    document = _document(file.read(), assignments or ())
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

    with _wrong_usage():
        return assigned_in(assignments)


def _document(data: bytes, assignments: Sequence[str]) -> dict[str, Any]:
    """The document to submit."""
    from ampclient.documents import document_in

    with _wrong_usage():
        return document_in(data, assignments)


@contextmanager
def _wrong_usage() -> Iterator[None]:
    """An assignment that names no field is wrong usage, not a bad spec."""
    try:
        yield
    except InvalidSpec as error:
        for problem in error.problems:
            if problem.code == "bad_assignment" and not problem.pointer:
                raise typer.BadParameter(problem.detail, param_hint="--set") from None
        raise
