"""What the commands that create a study share: their options, and the request."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ampclient.cli.jobs.watch import detach_on_interrupt
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.study_output import cost_line, print_estimate, print_study
from ampclient.cli.output.tables import print_json
from ampclient.cli.submit.submissions import code_source, parse_spec_file
from ampclient.cli.submit.submit import (
    Assignments,
    CodeFolder,
    IdempotencyKey,
    SpecFile,
    WeightsFile,
)

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampspec.api.studies import Study

Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for the answer; exit 0 only if there is one.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the jobs and their cost; create nothing.")
]
Name = Annotated[str | None, typer.Option(help="Name of the study.", show_default=False)]

Priority = Annotated[
    int | None,
    typer.Option(
        "--priority",
        min=0,
        max=9,
        help="Of the jobs; a point is worth six hours of waiting in their project.  "
        "[default: 3, below submitted jobs]",
        show_default=False,
    ),
]

Options = dict[str, Any]
"""The options of a kind of study; None stands for the default of the server."""


def study_command(kind: Any) -> Callable[[Callable[..., Options]], Callable[..., None]]:
    """Make a command that creates a study of a function that returns the options of its kind.

    The command has the parameters of the function between the spec file and the options that all
    such commands have.
    """

    def decorate(options_of: Callable[..., Options]) -> Callable[..., None]:
        @functools.wraps(options_of)
        def command(**given: Any) -> None:
            shared = {name: given.pop(name) for name in SHARED if name in given}
            options = options_of(**given)
            known = {name: value for name, value in options.items() if value is not None}
            _create(kind, known, **shared)

        context, file, *others = SHARED.values()
        own = inspect.signature(options_of).parameters.values()
        parameters = [context, file, *own, *others]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate


def _create(
    kind: Any,
    options: Options,
    *,
    context: typer.Context,
    file: SpecFile,
    assignments: Assignments = None,
    code: CodeFolder = None,
    weights: WeightsFile = None,
    name: Name = None,
    priority: Priority = None,
    key: IdempotencyKey = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """State the cost, and create the study; with `wait`, print its answer and exit."""
    document = parse_spec_file(file.read(), assignments or ())
    client = client_of(context)
    if code is not None:
        code_source(code)  # an unsuitable folder is a usage error
    found = client.studies.estimate(kind, document, options, code=code, weights=weights)
    if dry_run:
        if as_json:
            print_json(found.to_json())
        else:
            print_estimate(found)
        return
    typer.echo(cost_line(found), err=True)
    study = client.studies.run(
        kind,
        document,
        options,
        name=name,
        priority=priority,
        code=code,
        weights=weights,
        idempotency_key=key,
    )
    if wait:
        study = waited(client, study.id)
        print_one(study, as_json=as_json)
        raise typer.Exit(exit_status(study))
    if as_json:
        print_json(study.to_json())
        return
    typer.echo(study.id)
    typer.echo(f"Created. Read the answer with: ampctl lab get {study.id} --wait", err=True)


SHARED = {
    name: parameter
    for name, parameter in inspect.signature(_create).parameters.items()
    if name not in ("kind", "options")
}
"""The parameters that all commands have which create a study."""


def waited(client: "Client", study_id: str) -> "Study":
    """Wait until the study has ended; a line on standard error for each change."""
    last = ""

    def report(study: "Study") -> None:
        nonlocal last
        progress = f", {100 * study.progress:.0f} %" if study.progress is not None else ""
        jobs = f"{study.jobs_ended} of {study.jobs_planned} jobs"
        line = f"{study.id} {study.state}: {jobs}{progress}"
        if line != last:
            typer.echo(line, err=True)
        last = line

    resume = f"The study goes on. Read the answer with: ampctl lab get {study_id} --wait"
    with detach_on_interrupt(resume):
        return client.studies.wait(study_id, on_progress=report)


def print_one(study: "Study", *, as_json: bool) -> None:
    """Print a study, with its answer once there is one."""
    if as_json:
        print_json(study.to_json())
    else:
        print_study(study)


def exit_status(study: "Study") -> int:
    """0 if the study has an answer."""
    return 0 if study.state == "succeeded" else 1
