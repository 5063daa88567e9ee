"""`ampctl project`: list projects and set their quotas. For admins."""

from typing import Annotated

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output import print_json
from ampclient.cli.server_output import print_projects

group = typer.Typer(help="List projects and set their quotas (for admins).", no_args_is_help=True)

UNLIMITED = "none"


def _quota(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not text.isdecimal():
        raise typer.BadParameter(f"Expected a number, or none for no limit; received {text!r}.")
    return int(text)


MaxQueued = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum number of queued jobs.", show_default=False),
]
MaxRunning = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum number of running jobs.", show_default=False),
]
MaxDatasetBytes = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum bytes of datasets.", show_default=False),
]


@group.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the projects with their quotas and their queued and running jobs."""
    found = client_of(context).projects.list()
    if as_json:
        print_json([project.to_json() for project in found])
    else:
        print_projects(found)


@group.command(name="set")
def set_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project.", show_default=False)],
    *,
    max_queued: MaxQueued = None,
    max_running: MaxRunning = None,
    max_dataset_bytes: MaxDatasetBytes = None,
    as_json: AsJson = False,
) -> None:
    """Set a project's quotas, creating it if needed. Options left out keep their value."""
    given = {
        "max_queued": max_queued,
        "max_running": max_running,
        "max_dataset_bytes": max_dataset_bytes,
    }
    quotas = {key: _quota(text) for key, text in given.items() if text is not None}
    if not quotas:
        options = "--max-queued, --max-running or --max-dataset-bytes"
        raise typer.BadParameter(f"nothing to set: give {options}")
    projects = client_of(context).projects
    known = next((project for project in projects.list() if project.name == name), None)
    kept = {key: getattr(known, key, None) for key in given}
    wanted = kept | quotas
    changed = projects.update(name, **wanted)
    if as_json:
        print_json(changed.to_json())
    else:
        print_projects([changed])
