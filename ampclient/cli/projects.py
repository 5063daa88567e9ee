"""`ampctl project`: the projects and their quotas. For admins."""

from typing import Annotated

import typer

from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.output import print_json
from ampclient.cli.service_output import print_projects

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
    typer.Option(metavar="N|none", help="How many jobs may wait.", show_default=False),
]
MaxRunning = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="How many may run at one time.", show_default=False),
]


@group.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List every project with its quotas, and how many of its jobs wait and run."""
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
    as_json: AsJson = False,
) -> None:
    """Set quotas of a project; what is not named stays. A project that is not there is made."""
    given = {"max_queued": max_queued, "max_running": max_running}
    quotas = {key: _quota(text) for key, text in given.items() if text is not None}
    if not quotas:
        raise typer.BadParameter("nothing to set: give --max-queued or --max-running")
    projects = client_of(context).projects
    known = next((project for project in projects.list() if project.name == name), None)
    kept = {key: getattr(known, key, None) for key in given}
    changed = projects.update(name, **(kept | quotas))
    if as_json:
        print_json(changed.to_json())
    else:
        print_projects([changed])
