"""`ampctl dataset`: upload, list, show, download and delete datasets."""

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ampclient._display import formats
from ampclient._transfer.upload_source import list_folder
from ampclient.cli.jobs.watch import detach_on_interrupt
from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.dataset_output import (
    describe_version,
    print_dataset,
    print_datasets,
    print_newest_columns,
    print_version,
)
from ampclient.cli.output.download_bar import download_bar
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_item, print_items
from ampclient.cli.output.tables import print_json
from ampclient.cli.storage.dataset_check import check_file
from ampclient.datasets import target_name
from ampspec.documents.text import plural

group = typer.Typer(help="Upload, list and delete datasets.", no_args_is_help=True)

Reference = Annotated[
    str,
    typer.Argument(
        metavar="NAME[@N]", help="A dataset, or one of its versions.", show_default=False
    ),
]


T = TypeVar("T")


def _checked(work: Callable[[], T]) -> T:
    """The result of `work`. Raises BadParameter for a malformed reference."""
    try:
        return work()
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


@group.command()
def upload(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A file, or a folder, which becomes a zip archive; links are followed.",
            exists=True,
            show_default=False,
        ),
    ],
    *,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the dataset (default: from the file).", show_default=False),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="First read all of it here, and decode every picture."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a file as the next version of a dataset; interrupted uploads resume."""
    datasets = client_of(context).datasets
    again = "What was sent is kept for a day; run the same command to resume."
    # Before the files of a folder are listed, which may be many.
    dataset = _checked(lambda: target_name(path, name))
    links = _checked(lambda: list_folder(path).links) if path.is_dir() else 0
    if links:
        typer.echo(f"{plural(links, 'link')} followed: the files are uploaded.", err=True)
    if check:
        check_file(path)
    with detach_on_interrupt(again), download_bar() as show_bar:
        version = _checked(lambda: datasets.upload(path, name=dataset, on_progress=show_bar))
    if as_json:
        print_json(version.to_json())
    else:
        typer.echo(version.reference)
        typer.echo(describe_version(version), err=True)


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the datasets of the project, each with its newest version."""
    print_items(
        client_of(context).datasets.list(limit=limit),
        chosen(output, as_json=as_json),
        print_datasets,
        name=attrgetter("name"),
        empty="There are no datasets yet; see `ampctl dataset upload --help`.",
    )


@group.command()
def get(
    context: typer.Context,
    reference: Reference,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show the versions of a dataset and its newest columns, or one version and its first rows."""
    datasets = client_of(context).datasets
    if "@" in reference:
        version = _checked(lambda: datasets.get(reference))
        print_item(
            version, chosen(output, as_json=as_json), print_version, name=attrgetter("reference")
        )
        return
    versions = _checked(lambda: list(datasets.versions(reference)))
    print_items(
        versions, chosen(output, as_json=as_json), print_dataset, name=attrgetter("reference")
    )
    if chosen(output, as_json=as_json) in (OutputFormat.TABLE, OutputFormat.WIDE) and versions:
        print_newest_columns(_checked(lambda: datasets.get(versions[0].reference)))


@group.command()
def propose(
    context: typer.Context,
    reference: Reference,
    *,
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column to predict.", show_default="proposed"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Propose a job for a dataset as YAML, with the reasons as comments: a start to edit."""
    from ampspec.documents.yaml_document import yaml_text

    proposal = _checked(lambda: client_of(context).datasets.propose(reference, target=target))
    if as_json:
        print_json({"spec": proposal.spec, "reasons": proposal.reasons})
        return
    for reason in proposal.reasons:
        typer.echo(f"# {formats.printable(reason)}")
    typer.echo(yaml_text(proposal.spec), nl=False)


@group.command()
def download(
    context: typer.Context,
    reference: Reference,
    *,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to download to.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Download a version and verify its SHA-256; interrupted downloads resume."""
    datasets = client_of(context).datasets
    again = "Partial downloads are kept; run the same command to resume."
    with detach_on_interrupt(again), download_bar() as show_bar:
        saved = _checked(lambda: datasets.download(reference, to=folder, on_progress=show_bar))
    if as_json:
        print_json(str(saved))
    else:
        typer.echo(saved)


@group.command()
def delete(context: typer.Context, reference: Reference, as_json: AsJson = False) -> None:
    """Delete a version, or every version of a dataset, unless an unfinished job uses it."""
    datasets = client_of(context).datasets
    _checked(lambda: datasets.delete(reference))
    if as_json:
        print_json({"deleted": reference})
    else:
        typer.echo(f"Deleted {reference}.", err=True)


# The names of before, for one version.
group.command("push", hidden=True)(upload)
group.command("pull", hidden=True)(download)
group.command("show", hidden=True)(get)
group.command("spec", hidden=True)(propose)
