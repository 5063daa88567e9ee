"""`ampctl run`: send runs of folders, import those of other tools, and mirror to those."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.tables import print_json
from ampclient.errors import AmpcoreError
from ampspec.documents.text import plural

if TYPE_CHECKING:
    from ampclient.imports.send import ImportedRun

group = typer.Typer(
    help="Send tracked runs of folders, import runs of other tools, and write runs to those.",
    no_args_is_help=True,
)


@group.command()
def sync(
    context: typer.Context,
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...",
            help="Folders of runs, as of `client.runs.track(folder=…)`.",
            exists=True,
            file_okay=False,
            show_default=False,
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Send what the server lacks of runs whose programs have ended.

    A run whose program was killed ends as failed. A program that still runs sends it by itself.
    """
    client = client_of(context)
    failure: AmpcoreError | None = None
    synced: list[dict[str, Any]] = []
    for folder in folders:
        try:
            run = client.runs.sync(folder)
        except AmpcoreError as error:
            if len(folders) == 1:
                raise
            typer.echo(f"{folder}: {error}", err=True)
            failure = failure or error
            continue
        if as_json:
            synced.append({"folder": str(folder), **run._asdict()})
            continue
        entries = plural(run.sent, "entry", "entries")
        what = f"{entries} sent" if run.sent else "nothing to send"
        typer.echo(f"{run.run_id}  {run.state}  {what}  {run.url}")
        if run.refused:
            typer.echo(f"{folder}: the server has refused {run.refused}.", err=True)
    if as_json:
        print_json(synced)
    if failure is not None:
        raise failure


@group.command("import-tensorboard")
def import_tensorboard(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="What `tensorboard --logdir` shows.",
            exists=True,
            file_okay=False,
            show_default=False,
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Make a tracked run of each folder with event files of TensorBoard."""
    try:
        _print_imported(client_of(context).runs.import_tensorboard(folder), as_json=as_json)
    except (FileNotFoundError, ModuleNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error


@group.command("import-mlflow")
def import_mlflow(
    context: typer.Context,
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="The tracking server of MLflow.", show_default=False),
    ],
    experiment: Annotated[
        str, typer.Option("--experiment", help="The name of the experiment.")
    ] = "Default",
    *,
    as_json: AsJson = False,
) -> None:
    """Make a tracked run of each run of an experiment of MLflow."""
    _print_imported(client_of(context).runs.import_mlflow(url, experiment), as_json=as_json)


@group.command()
def mirror(
    context: typer.Context,
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Tracked runs or jobs.", show_default=False),
    ],
    *,
    to: Annotated[
        Literal["mlflow", "wandb"], typer.Option("--to", help="The tool.", show_default=False)
    ],
    uri: Annotated[
        str | None,
        typer.Option("--uri", help="MLflow's tracking URI; else as MLflow is set."),
    ] = None,
    experiment: Annotated[
        str, typer.Option("--experiment", help="MLflow's experiment; created if it is missing.")
    ] = "Default",
    folder: Annotated[
        Path, typer.Option("--folder", help="Where W&B's folder `wandb` is.", file_okay=False)
    ] = Path(),
    project: Annotated[str, typer.Option("--project", help="The project of W&B.")] = "ampcore",
    as_json: AsJson = False,
) -> None:
    """Write tracked runs or jobs to MLflow, or to offline files of W&B.

    What they have is written as it is stored now. `wandb sync` uploads the offline files.
    """
    from ampclient import MlflowMirror, WandbMirror  # import NumPy

    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    client = client_of(context)
    documents: list[dict[str, Any]] = []
    for job_id in ids:
        try:
            target = (
                MlflowMirror(uri, experiment) if to == "mlflow" else WandbMirror(folder, project)
            )
        except ModuleNotFoundError as error:
            raise typer.BadParameter(str(error)) from error
        mirrored = client.runs.mirror(job_id, target)
        documents.append(mirrored._asdict())
        if not as_json:
            steps, evaluations = mirrored.steps, mirrored.evaluations
            counts = f"{plural(steps, 'step')}, {plural(evaluations, 'evaluation')}"
            typer.echo(f"{mirrored.id}  {mirrored.name}  {counts}  {mirrored.place}")
    if as_json:
        print_json(documents)
    elif documents:
        typer.echo(f"not written: {documents[0]['not_mirrored']}", err=True)


def _print_imported(runs: "Iterable[ImportedRun]", *, as_json: bool) -> None:
    documents: list[dict[str, Any]] = []
    for run in runs:
        documents.append(run._asdict())
        if as_json:
            continue
        typer.echo(f"{run.id}  {run.name}  {plural(run.steps, 'step')}  {run.url}")
        renamed = [f"{name} as {column}" for name, column in run.columns.items() if name != column]
        if renamed:
            typer.echo(f"  columns: {', '.join(renamed)}")
        if run.left_out:
            counts = [f"{count:,} {name}" for name, count in run.left_out.items()]
            typer.echo(f"  left out: {', '.join(counts)}", err=True)
    if as_json:
        print_json(documents)
    elif not documents:
        typer.echo("There are no scalars to import.", err=True)
