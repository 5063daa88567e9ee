"""`ampctl file`: list and delete the files that jobs name by their SHA-256."""

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ampclient._display import formats
from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.tables import ago, print_json, print_table
from ampclient.errors import NotFound
from ampspec.references.stored_files import DIGEST_PREFIX, FileKind, digest_of

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampspec.api.files import ListedFile

group = typer.Typer(help="List and delete uploaded code bundles and weights.", no_args_is_help=True)

SHOWN_DIGITS: Final = 12
"""Of a SHA-256 in a table."""
MIN_DIGITS: Final = 6
MAX_JOBS: Final = 2
"""Of those that name a file, in a table."""

Kind = Annotated[FileKind | None, typer.Option(help="Only files of this kind.", show_default=False)]


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    kind: Kind = None,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the files of the project, the newest first, with the jobs that use them."""
    print_items(
        client_of(context).files.list(kind=kind, limit=limit),
        chosen(output, as_json=as_json),
        _print_files,
        name=attrgetter("reference"),
        empty="There are no files: no job has a bundle or uploaded weights.",
    )


@group.command()
def delete(
    context: typer.Context,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="SHA256",
            help=f"The SHA-256 of a file, or its first digits, at least {MIN_DIGITS}.",
            show_default=False,
        ),
    ],
    *,
    kind: Kind = None,
    as_json: AsJson = False,
) -> None:
    """Delete a file, unless a job uses it, also one that has ended."""
    client = client_of(context)
    file = _find(client, reference, kind)
    client.files.delete(file.reference, kind=file.kind)
    if as_json:
        print_json({"deleted": file.reference})
    else:
        typer.echo(f"Deleted {file.reference}.", err=True)


def _find(client: "Client", reference: str, kind: FileKind | None) -> "ListedFile":
    """The only file whose SHA-256 begins with these digits. Raises BadParameter and NotFound."""
    digits = digest_of(reference).lower()
    if len(digits) < MIN_DIGITS or set(digits) - set("0123456789abcdef"):
        raise typer.BadParameter(
            f"expected at least {MIN_DIGITS} hexadecimal digits, received {reference!r}"
        )
    matching = [file for file in client.files.list(kind=kind) if file.sha256.startswith(digits)]
    if not matching:
        detail = f"There is no file {reference!r}. Run `ampctl file list` to see the files."
        raise NotFound(detail, code="not_found", status=404)
    if len(matching) > 1:
        names = ", ".join(f"{file.kind} {file.sha256[: len(digits) + 8]}…" for file in matching[:5])
        raise typer.BadParameter(f"expected the digits or --kind of one file, received {names}")
    return matching[0]


def _print_files(files: Sequence["ListedFile"]) -> None:
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("FILE"),
        TableColumn("KIND"),
        TableColumn("SIZE", align_right=True),
        TableColumn("UPLOADED", align_right=True, drop_order=2),
        TableColumn("BY", min_width=8, drop_order=3),
        TableColumn("USED", align_right=True, drop_order=1),
        TableColumn("JOBS", min_width=12),
    )
    rows = [
        (
            f"{DIGEST_PREFIX}{file.sha256[:SHOWN_DIGITS]}",
            str(file.kind),
            formats.size(file.size_bytes),
            ago(file.created_at),
            formats.printable(file.created_by or formats.UNKNOWN),
            ago(file.last_used_at),
            _jobs(file),
        )
        for file in files
    ]
    print_table(columns, rows)


def _jobs(file: "ListedFile") -> str:
    """The number of jobs that name a file, and the newest of them."""
    names = [f"{formats.printable(job.name)} ({job.id})" for job in file.jobs[:MAX_JOBS]]
    more = ["…"] if file.job_count > len(names) else []
    return f"{file.job_count}: {', '.join(names + more)}" if names else "0"
