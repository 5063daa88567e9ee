"""`ampctl lab`: studies, which ask a question of several jobs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output import print_json
from ampclient.cli.study_output import print_estimate, print_studies, print_study
from ampclient.cli.submissions import parse_spec_file
from ampclient.cli.submit import Assignments, IdempotencyKey, SpecFile
from ampclient.cli.watch import detach_on_interrupt

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampcore.api.studies import Study

group = typer.Typer(
    help="Ask a question of several jobs: which policy, which layers, how large a batch.",
    no_args_is_help=True,
)

PolicyNames = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Policies to study, for example mixed_bfloat16,mixed_float16 (default: those that "
        "the workers' devices can run).",
        show_default=False,
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for the answer; exit 0 only if there is one.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the jobs and their cost; create nothing.")
]
Name = Annotated[str | None, typer.Option(help="Name of the study.", show_default=False)]
StudyId = Annotated[str, typer.Argument(metavar="ID", help="Study id.", show_default=False)]


@group.command()
def precision(
    context: typer.Context,
    file: SpecFile,
    *,
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds.")] = 3,
    policies: PolicyNames = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Steps of each job (default: as in the spec).", show_default=False
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Metric to compare, for example val_loss.", show_default=False),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0, help="Difference that does not matter, in the metric's unit.", show_default=False
        ),
    ] = None,
    assignments: Assignments = None,
    name: Name = None,
    key: IdempotencyKey = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Find out which policy is as accurate as float32, and how much faster it is.

    Float32 and every policy train with the same seeds.
    """
    given = {"seeds": seeds, "policies": _names(policies), "steps": steps}
    options = _known(given | {"metric": metric, "margin": margin})
    document = parse_spec_file(file.read(), assignments or ())
    study = _Request("precision", document, options, name, key)
    study.run(context, dry_run=dry_run, wait=wait, as_json=as_json)


@group.command()
def capacity(
    context: typer.Context,
    file: SpecFile,
    *,
    policies: PolicyNames = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each job.")] = 20,
    max_batch: Annotated[
        int, typer.Option(min=8, help="Largest batch to try, a multiple of 8.")
    ] = 4096,
    resolution: Annotated[
        float,
        typer.Option(min=0, max=1, help="How close the search comes; 0: to a multiple of 8."),
    ] = 0.05,
    assignments: Assignments = None,
    name: Name = None,
    key: IdempotencyKey = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Find out how large the batch may be under each policy, and where it stops to gain speed.

    Jobs of the study may die of memory: that is a measurement.
    """
    given = {"policies": _names(policies), "steps": steps, "max_batch": max_batch}
    options = _known(given | {"resolution": resolution})
    document = parse_spec_file(file.read(), assignments or ())
    study = _Request("capacity", document, options, name, key)
    study.run(context, dry_run=dry_run, wait=wait, as_json=as_json)


@group.command()
def bisect(
    context: typer.Context,
    file: SpecFile,
    *,
    policy: Annotated[
        str, typer.Option(help="The policy that overflows, or is less accurate.")
    ] = "mixed_float16",
    seeds: Annotated[int, typer.Option(min=2, help="Seeds of float32, for the noise band.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each job.")] = 200,
    metric: Annotated[
        str | None,
        typer.Option(help="Metric to compare, for example val_loss.", show_default=False),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0, help="Difference that does not matter, in the metric's unit.", show_default=False
        ),
    ] = None,
    skipped_share: Annotated[
        float, typer.Option(min=0, max=1, help="A job that skips more of its steps fails.")
    ] = 0.1,
    assignments: Assignments = None,
    name: Name = None,
    key: IdempotencyKey = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Find out which layers need float32 under a policy, and print the overrides."""
    given = {"policy": policy, "seeds": seeds, "steps": steps, "metric": metric}
    options = _known(given | {"margin": margin, "skipped_share": skipped_share})
    document = parse_spec_file(file.read(), assignments or ())
    study = _Request("bisect", document, options, name, key)
    study.run(context, dry_run=dry_run, wait=wait, as_json=as_json)


@group.command(name="list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the studies, the newest first."""
    found = list(client_of(context).lab.list())
    if as_json:
        print_json([study.to_json() for study in found])
    else:
        print_studies(found)


@group.command()
def get(
    context: typer.Context,
    study_id: StudyId,
    *,
    wait: Wait = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the answer as Markdown.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a study with its jobs, and its answer once there is one."""
    client = client_of(context)
    study = _waited(client, study_id) if wait else client.lab.get(study_id)
    if markdown and study.answer is not None:
        from ampcore.lab.markdown import study_markdown

        typer.echo(study_markdown(study), nl=False)
    else:
        _print(study, as_json=as_json)
    if wait:
        raise typer.Exit(_exit_status(study))


@group.command()
def cancel(context: typer.Context, study_id: StudyId, as_json: AsJson = False) -> None:
    """Cancel a study and those of its jobs that have not ended."""
    _print(client_of(context).lab.cancel(study_id), as_json=as_json)


@group.command()
def delete(context: typer.Context, study_id: StudyId) -> None:
    """Delete a study that has ended, with its answer; its jobs stay."""
    client_of(context).lab.delete(study_id)
    typer.echo(f"{study_id} deleted")


class _Request:
    """A study to create, as the command line gives it."""

    def __init__(
        self,
        kind: Any,
        document: dict[str, Any],
        options: dict[str, Any],
        name: str | None,
        key: str | None,
    ) -> None:
        self._kind, self._document, self._options = kind, document, options
        self._name, self._key = name, key

    def run(self, context: typer.Context, *, dry_run: bool, wait: bool, as_json: bool) -> None:
        """Create the study, or estimate it; with `wait`, print its answer and exit."""
        lab = client_of(context)
        if dry_run:
            found = lab.lab.estimate(self._kind, self._document, self._options)
            if as_json:
                print_json(found.to_json())
            else:
                print_estimate(found)
            return
        study = lab.lab.run(
            self._kind,
            self._document,
            self._options,
            name=self._name,
            idempotency_key=self._key,
        )
        if wait:
            study = _waited(lab, study.id)
            _print(study, as_json=as_json)
            raise typer.Exit(_exit_status(study))
        if as_json:
            print_json(study.to_json())
            return
        typer.echo(study.id)
        typer.echo(f"Created. Read the answer with: ampctl lab get {study.id} --wait", err=True)


def _waited(client: "Client", study_id: str) -> "Study":
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
        return client.lab.wait(study_id, progress=report)


def _print(study: "Study", *, as_json: bool) -> None:
    if as_json:
        print_json(study.to_json())
    else:
        print_study(study)


def _exit_status(study: "Study") -> int:
    return 0 if study.state == "succeeded" else 1


def _names(policies: str | None) -> list[str] | None:
    if policies is None:
        return None
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("expected names such as mixed_bfloat16", param_hint="--policies")
    return names


def _known(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
