"""`ampctl model`: list, show, register, describe, download and delete models."""

from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from ampclient.cli.jobs.watch import detach_on_interrupt
from ampclient.cli.models.arguments import Name, Reference, checked, names_version, tag_changes
from ampclient.cli.models.promotion import alias, gate, history, promote
from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.download_bar import download_bar
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_item, print_items
from ampclient.cli.output.model_output import print_model_version, print_models, print_versions
from ampclient.cli.output.tables import print_json

group = typer.Typer(
    help="Register, promote and download models: named versions of what jobs have trained.",
    no_args_is_help=True,
)

Tags = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE", help="Tags to set; KEY= removes one.", show_default=False),
]


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the models of the project, with their aliases and newest versions."""
    print_items(
        client_of(context).models.list(limit=limit),
        chosen(output, as_json=as_json),
        print_models,
        name=attrgetter("name"),
        empty="There are no models yet; see `ampctl model register --help`.",
    )


@group.command()
def show(
    context: typer.Context,
    reference: Reference,
    *,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="List the deleted versions of NAME.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show the versions of a model, or one version with its files, data and metrics."""
    models = client_of(context).models
    if deleted or not names_version(reference):
        versions = checked(lambda: list(models.versions(reference, deleted=deleted)))
        print_items(
            versions,
            chosen(output, as_json=as_json),
            print_versions,
            name=attrgetter("reference"),
            empty="There are no such versions.",
        )
        return
    version = checked(lambda: models.get(reference))
    print_item(
        version,
        chosen(output, as_json=as_json),
        print_model_version,
        name=attrgetter("reference"),
    )


@group.command()
def register(
    context: typer.Context,
    name: Name,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job that has succeeded.")],
    *,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Model file of a job that has several, such as model-best.keras.",
            show_default=False,
        ),
    ] = None,
    note: Annotated[str | None, typer.Option(help="A text about it.", show_default=False)] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A tag; repeatable.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Register the model of a job as the next version of NAME, which is created if needed."""
    tags = {key: value for key, value in tag_changes(tag or []).items() if value is not None}
    version = checked(
        lambda: client_of(context).models.register(job, name=name, file=file, note=note, tags=tags)
    )
    if as_json:
        print_json(version.to_json())
    else:
        typer.echo(version.reference)


@group.command()
def tag(context: typer.Context, reference: Reference, tags: Tags, as_json: AsJson = False) -> None:
    """Set or remove tags of a version, or with NAME alone of the model."""
    models, changes = client_of(context).models, tag_changes(tags)
    if names_version(reference):
        version = checked(lambda: models.update_version(reference, tags=changes))
        remaining, document = version.tags, version.to_json()
    else:
        model = checked(lambda: models.update(reference, tags=changes))
        remaining, document = model.tags, model.to_json()
    if as_json:
        print_json(document)
    else:
        typer.echo("\n".join(f"{key}={value}" for key, value in remaining.items()) or "no tags")


@group.command()
def note(
    context: typer.Context,
    reference: Reference,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help='The note; "" removes it.', show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Write the note of a version, or with NAME alone of the model."""
    models = client_of(context).models
    if names_version(reference):
        document = checked(lambda: models.update_version(reference, note=text or None)).to_json()
    else:
        document = checked(lambda: models.update(reference, note=text or None)).to_json()
    if as_json:
        print_json(document)
    else:
        typer.echo("Removed." if not text else "Saved.", err=True)


@group.command()
def download(
    context: typer.Context,
    reference: Reference,
    *,
    format_: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="keras, safetensors, saved_model or onnx."),
    ] = "keras",
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to download to.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Download a version and verify its SHA-256; interrupted downloads resume."""
    models = client_of(context).models
    again = "Partial downloads are kept; run the same command to resume."
    with detach_on_interrupt(again), download_bar() as show_bar:
        saved = checked(
            lambda: models.download(reference, to=folder, format=format_, on_progress=show_bar)
        )
    if as_json:
        print_json(str(saved))
    else:
        typer.echo(saved)


@group.command()
def card(
    context: typer.Context,
    reference: Reference,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write it to a file.",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the model card of a version as Markdown."""
    text = checked(lambda: client_of(context).models.card(reference))
    if file is None:
        typer.echo(text, nl=False)
    else:
        file.write_text(text, encoding="utf-8")
        typer.echo(file)


@group.command()
def delete(context: typer.Context, reference: Reference, as_json: AsJson = False) -> None:
    """Delete a version, or with NAME all of them, unless one has an alias."""
    checked(lambda: client_of(context).models.delete(reference))
    if as_json:
        print_json({"deleted": reference})
    else:
        typer.echo(
            f"Deleted {reference}. While its job exists, `ampctl model undelete` restores it.",
            err=True,
        )


@group.command()
def undelete(context: typer.Context, reference: Reference, as_json: AsJson = False) -> None:
    """Restore a deleted version, if its job was not deleted."""
    version = checked(lambda: client_of(context).models.undelete(reference))
    if as_json:
        print_json(version.to_json())
    else:
        typer.echo(f"Restored {version.reference}.", err=True)


for command in (alias, promote, gate, history):
    group.command()(command)
