"""`ampctl run`: send runs that their programs have kept in a folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.tables import print_json
from ampclient.errors import AmpcoreError

group = typer.Typer(help="Send tracked runs that were kept in a folder.", no_args_is_help=True)


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
        what = f"{run.sent:,} entries sent" if run.sent else "nothing to send"
        typer.echo(f"{run.run_id}  {run.state}  {what}  {run.url}")
        if run.refused:
            typer.echo(f"{folder}: the server has refused {run.refused}.", err=True)
    if as_json:
        print_json(synced)
    if failure is not None:
        raise failure
