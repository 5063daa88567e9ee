"""The commands that create a study: the options of its kind and of all kinds, and the request."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.jobs.watch import Wait, detach_on_interrupt
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.study_output import cost_line, print_estimate, print_study
from ampclient.cli.output.tables import print_json
from ampclient.cli.studies.study_options import options_of, parameters_of
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


def study_command(kind: Any, summary: str) -> Callable[..., None]:
    """A command that creates a study of this kind; `summary` is its help."""

    def command(**arguments: Any) -> None:
        shared = {name: arguments.pop(name) for name in SHARED if name in arguments}
        _create(kind, options_of(arguments), **shared)

    context, file, *common = SHARED.values()
    parameters = [context, file, *parameters_of(kind), *common]
    command.__name__, command.__doc__ = kind, summary
    # Typer reads both.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _create(
    kind: Any,
    options: dict[str, Any],
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
    estimate = client.studies.estimate(kind, document, options, code=code, weights=weights)
    if dry_run:
        if as_json:
            print_json(estimate.to_json())
        else:
            print_estimate(estimate)
        return
    typer.echo(cost_line(estimate), err=True)
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
    typer.echo(f"Created. Read the answer with: ampctl study get {study.id} --wait", err=True)


SHARED = {
    name: parameter
    for name, parameter in inspect.signature(_create).parameters.items()
    if name not in ("kind", "options")
}
"""The parameters that all commands have which create a study."""


def waited(client: "Client", study_id: str) -> "Study":
    """Wait until the study has ended; a line on standard error for each change."""
    last_line = ""

    def report(study: "Study") -> None:
        nonlocal last_line
        progress = f", {100 * study.progress:.0f} %" if study.progress is not None else ""
        jobs = f"{study.jobs_ended} of {study.jobs_planned} jobs"
        line = f"{study.id} {study.state}: {jobs}{progress}"
        if line != last_line:
            typer.echo(line, err=True)
        last_line = line

    resume = f"The study goes on. Read the answer with: ampctl study get {study_id} --wait"
    with detach_on_interrupt(resume):
        return client.studies.wait(study_id, on_progress=report)


def print_one(study: "Study", *, as_json: bool) -> None:
    """Print a study, with its answer once there is one."""
    if as_json:
        print_json(study.to_json())
    else:
        print_study(study)


def exit_status(study: "Study") -> ExitStatus:
    """0 if the study has an answer."""
    return ExitStatus.DONE if study.state == "succeeded" else ExitStatus.FAILED
