"""`ampctl project`: list projects and set their quotas. For admins."""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any

import typer

from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.server_output import print_projects
from ampclient.cli.output.tables import print_json
from ampspec.comparison.assertions import SIZES
from ampspec.documents.problems import closest_match

group = typer.Typer(help="List projects and set their quotas (for admins).", no_args_is_help=True)

UNLIMITED = "none"


def _quota(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not text.isdecimal():
        raise typer.BadParameter(f"Expected a number, or none for no limit; received {text!r}.")
    return int(text)


def _bytes(text: str) -> int | None:
    """A number of bytes, also with a unit: 10GB, 512MiB."""
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({'|'.join(SIZES)}|B)?", text)
    if text == UNLIMITED:
        return None
    if match is None:
        raise typer.BadParameter(
            f"Expected a number of bytes such as 10GB or 512MiB, or none for no limit; received "
            f"{text!r}."
        )
    return int(float(match[1]) * SIZES.get(match[2] or "B", 1.0))


def _hours(text: str) -> float | None:
    try:
        return None if text == UNLIMITED else float(text)
    except ValueError:
        raise typer.BadParameter(
            f"Expected a number of hours, or none for no limit; received {text!r}."
        ) from None


MaxQueued = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum number of queued jobs.", show_default=False),
]
MaxRunning = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum number of running jobs.", show_default=False),
]
MaxDevices = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum devices of running jobs.", show_default=False),
]
MaxDeviceHours = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum device hours in 30 days.", show_default=False),
]
Weight = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        min=0.001,
        max=1000,
        help="Its part of the devices, relative to other projects (1).",
        show_default=False,
    ),
]
MaxDatasetBytes = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum bytes of datasets.", show_default=False),
]
MaxArtifactBytes = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Maximum bytes of artifacts of jobs.", show_default=False),
]


def _created(name: str, names: Sequence[str]) -> str:
    """That a project is new; with the other projects if one of them may have been meant."""
    sentence = f"Created the project {name}."
    similar = closest_match(name, names)
    if similar is None:
        return sentence
    return f"{sentence} Did you mean {similar}? The projects before: {', '.join(names)}."


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the projects with their quotas and their queued and running jobs."""
    projects = client_of(context).projects.list(limit=limit)
    print_items(projects, chosen(output, as_json=as_json), print_projects, name=attrgetter("name"))


@group.command(name="set")
def set_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project.", show_default=False)],
    *,
    max_queued: MaxQueued = None,
    max_running: MaxRunning = None,
    max_devices: MaxDevices = None,
    max_device_hours: MaxDeviceHours = None,
    max_dataset_bytes: MaxDatasetBytes = None,
    max_artifact_bytes: MaxArtifactBytes = None,
    weight: Weight = None,
    as_json: AsJson = False,
) -> None:
    """Set a project's quotas and weight, creating it if needed. Options left out stay."""
    quotas = {
        "max_queued": max_queued,
        "max_running": max_running,
        "max_devices": max_devices,
    }
    sizes = {"max_dataset_bytes": max_dataset_bytes, "max_artifact_bytes": max_artifact_bytes}
    changes: dict[str, Any] = {
        key: _quota(text) for key, text in quotas.items() if text is not None
    }
    changes |= {key: _bytes(text) for key, text in sizes.items() if text is not None}
    if max_device_hours is not None:
        changes["max_device_hours"] = _hours(max_device_hours)
    if weight is not None:
        changes["weight"] = weight
    if not changes:
        raise typer.BadParameter("nothing to set: give a quota, as in --max-running 4, or --weight")
    projects = client_of(context).projects
    names = [project.name for project in projects.list()]
    changed = projects.update(name, **changes)
    if name not in names:
        typer.echo(_created(name, names), err=True)
    if as_json:
        print_json(changed.to_json())
    else:
        print_projects([changed])
