"""`ampctl dataset`: upload, list, show, download and delete datasets."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ampclient._display import formats
from ampclient._transfer.upload_source import list_folder
from ampclient.cli.jobs.watch import detach_on_interrupt
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.dataset_output import (
    describe_version,
    print_dataset,
    print_datasets,
    print_version,
)
from ampclient.cli.output.download_bar import download_bar
from ampclient.cli.output.tables import print_json
from ampclient.cli.storage.dataset_check import check_file
from ampclient.datasets import name_of
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
def push(
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
    wanted = name if name is not None else _checked(lambda: name_of(path))
    links = _checked(lambda: list_folder(path).links) if path.is_dir() else 0
    if links:
        typer.echo(f"{plural(links, 'link')} followed: the files are uploaded.", err=True)
    if check:
        check_file(path)
    with detach_on_interrupt(again), download_bar() as show_bar:
        version = _checked(lambda: datasets.upload(path, name=wanted, on_progress=show_bar))
    if as_json:
        print_json(version.to_json())
    else:
        typer.echo(version.reference)
        typer.echo(describe_version(version), err=True)


@group.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the datasets of the project, each with its newest version."""
    found = list(client_of(context).datasets.list())
    if as_json:
        print_json([dataset.to_json() for dataset in found])
    elif found:
        print_datasets(found)
    else:
        typer.echo("There are no datasets yet; see `ampctl dataset push --help`.", err=True)


@group.command()
def show(context: typer.Context, reference: Reference, as_json: AsJson = False) -> None:
    """Show the versions of a dataset, or the columns and first rows of one version."""
    datasets = client_of(context).datasets
    if "@" in reference:
        version = _checked(lambda: datasets.get(reference))
        if as_json:
            print_json(version.to_json())
        else:
            print_version(version)
        return
    versions = _checked(lambda: list(datasets.versions(reference)))
    if as_json:
        print_json([version.to_json() for version in versions])
    else:
        print_dataset(versions)


@group.command()
def spec(context: typer.Context, reference: Reference, as_json: AsJson = False) -> None:
    """Propose a job for a dataset as YAML, with the reasons as comments: a start to edit."""
    from ampspec.documents.yaml_document import yaml_text

    proposal = _checked(lambda: client_of(context).datasets.propose(reference))
    if as_json:
        print_json({"spec": proposal.spec, "reasons": proposal.reasons})
        return
    for reason in proposal.reasons:
        typer.echo(f"# {formats.printable(reason)}")
    typer.echo(yaml_text(proposal.spec), nl=False)


@group.command()
def pull(
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
