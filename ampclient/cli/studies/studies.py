"""`ampctl study`: ask a question of several jobs."""

from operator import attrgetter
from typing import Annotated, Final

import typer

from ampclient.cli.jobs.watch import Wait
from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_item, print_items
from ampclient.cli.output.study_output import print_studies, print_study
from ampclient.cli.output.tables import print_json
from ampclient.cli.studies.study_command import exit_status, print_one, study_command, waited

group = typer.Typer(
    help="Ask a question of several jobs: which policy, which layers, how large a batch, which "
    "values.",
    no_args_is_help=True,
)
SUMMARIES: Final = {
    "precision": "Find out which policy is as accurate as float32, and how much faster it is.\n\n"
    "Float32 and every policy train with the same seeds.",
    "capacity": "Find out how large the batch may be under each policy, and beyond which it gets "
    "no faster.\n\nSome jobs are expected to run out of memory; that is how the limit is found.",
    "bisect": "Find out which layers need float32 under a policy, and print the overrides.",
    "search": "Find the values of hyper-parameters with the best metric.\n\n"
    "By grid, random draws or TPE; with --asha only the best runs train to their end.",
}
for kind, summary in SUMMARIES.items():
    group.command(kind)(study_command(kind, summary))

StudyId = Annotated[str, typer.Argument(metavar="ID", help="Study id.", show_default=False)]


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the studies, the newest first."""
    studies = client_of(context).studies.list(limit=limit)
    print_items(studies, chosen(output, as_json=as_json), print_studies, name=attrgetter("id"))


@group.command()
def get(
    context: typer.Context,
    study_id: StudyId,
    *,
    wait: Wait = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the answer as Markdown.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show a study with its jobs, and its answer once there is one."""
    client = client_of(context)
    study = waited(client, study_id) if wait else client.studies.get(study_id)
    if markdown and study.answer is not None:
        from ampspec.studies.markdown import study_markdown

        typer.echo(study_markdown(study), nl=False)
    else:
        print_item(study, chosen(output, as_json=as_json), print_study, name=attrgetter("id"))
    if wait:
        raise typer.Exit(exit_status(study))


@group.command()
def cancel(
    context: typer.Context, study_id: StudyId, wait: Wait = False, as_json: AsJson = False
) -> None:
    """Cancel a study and those of its jobs that have not ended."""
    client = client_of(context)
    study = client.studies.cancel(study_id)
    if wait:
        study = waited(client, study_id)
    print_one(study, as_json=as_json)


@group.command()
def delete(context: typer.Context, study_id: StudyId, as_json: AsJson = False) -> None:
    """Delete a study that has ended, with its answer; its jobs stay."""
    client_of(context).studies.delete(study_id)
    if as_json:
        print_json({"deleted": study_id})
    else:
        typer.echo(f"{study_id} deleted")
