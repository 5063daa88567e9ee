"""`ampctl list` and `get`: list jobs, show one job."""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ampclient.cli import shell_completion
from ampclient.cli.jobs.watch import result_warnings
from ampclient.cli.options import AsJson, JobId, client_of, job_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_item, print_items
from ampclient.cli.output.job_output import print_job, print_jobs
from ampclient.errors import NotFound
from ampspec.documents.problems import closest_match
from ampspec.jobs import State
from ampspec.jobs.states import Source

if TYPE_CHECKING:
    from ampclient._job.job import Job
    from ampspec.api.job.allocations import Allocation

COMPARISON: Final = re.compile("[<>=]")


def _state(text: str) -> State:
    if text in list(State):
        return State(text)
    word = closest_match(text, State)
    hint = f" Did you mean '{word}'?" if word else ""
    raise typer.BadParameter(f"Expected one of {', '.join(State)}; received {text!r}.{hint}")


States = Annotated[
    list[State] | None,
    typer.Option(
        "--state",
        parser=_state,
        metavar="STATE",
        help="Only jobs in this state, for example running or failed. May be repeated.",
        show_default=False,
        autocompletion=shell_completion.states,
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="KEY[=VALUE]",
        help="Only jobs with this label. May be repeated.",
        show_default=False,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only jobs whose last evaluation meets this: 'val_loss<0.1', 'val_accuracy>=0.9'. May "
        "be repeated.",
        show_default=False,
    ),
]
Text = Annotated[
    str | None,
    typer.Option(help="Search: part of the name, or the start of the id.", show_default=False),
]
Policy = Annotated[
    str | None,
    typer.Option(
        help="Only this policy.", show_default=False, autocompletion=shell_completion.policies
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Only this kind of model.", show_default=False, autocompletion=shell_completion.models
    ),
]
Project = Annotated[
    str | None, typer.Option(help="Only this project (for admins).", show_default=False)
]
Explanations = Annotated[
    bool, typer.Option("--explanations", help="Also list jobs that explain a step of another job.")
]
OfStudy = Annotated[
    str | None, typer.Option("--study", help="Only the jobs of this study.", show_default=False)
]
AllJobs = Annotated[
    bool, typer.Option("--all-jobs", help="List each job of a study, instead of a row per study.")
]
InTrash = Annotated[
    bool, typer.Option("--trash", help="List the deleted jobs that can be restored.")
]
Sort = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        help="created_at, updated_at, name, priority, or a metric such as val_loss; -FIELD sorts "
        "descending.  [default: -created_at]",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Maximum number of jobs.")]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--fields",
        metavar="FIELD",
        help="With -o json or yaml, also this (possibly large) field: spec. May be repeated.",
        show_default=False,
    ),
]
AllPages = Annotated[bool, typer.Option("--all-pages", help="List all jobs, ignoring --limit.")]


def list_(
    context: typer.Context,
    *,
    states: States = None,
    labels: Labels = None,
    where: Where = None,
    q: Text = None,
    policy: Policy = None,
    model: Model = None,
    project: Project = None,
    explanations: Explanations = False,
    study: OfStudy = None,
    all_jobs: AllJobs = False,
    trash: InTrash = False,
    sort: Sort = None,
    limit: Limit = 50,
    all_pages: AllPages = False,
    fields: Fields = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first; the jobs of a study are one row."""
    listed = list(
        client_of(context).jobs.list(
            state=states,
            label=labels,
            metric=where,
            q=q,
            policy=policy,
            model=model,
            project=project,
            explanations=explanations,
            study=study,
            fold_studies=study is None and not all_jobs and not trash,
            trash=trash,
            sort=sort,
            fields=fields,
            # One more than is shown, to know whether there are more.
            limit=None if all_pages else limit + 1,
        )
    )
    jobs = listed if all_pages else listed[:limit]
    print_items(
        jobs,
        chosen(output, as_json=as_json),
        lambda rows: print_jobs(rows, metrics=_metrics_in(sort, where)),
        name=attrgetter("id"),
        empty="No matching jobs.",
    )
    if len(listed) > len(jobs):
        typer.echo(f"Showing the first {limit}; use --limit N or --all-pages for more.", err=True)


def _metrics_in(sort: str | None, where: Sequence[str] | None) -> list[str]:
    """The metrics that the list is sorted or filtered by."""
    texts = [*([sort.removeprefix("-")] if sort else []), *(where or ())]
    names = [COMPARISON.split(text)[0].strip() for text in texts]
    return [name for name in dict.fromkeys(names) if name.startswith("val_")]


def get(
    context: typer.Context,
    job_id: JobId,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show one job."""
    job = job_of(context, job_id)
    print_item(job, chosen(output, as_json=as_json), _print_job, name=attrgetter("id"))


def _print_job(job: "Job") -> None:
    loaded = job.loaded_weights() if (job.spec or {}).get("init") else None
    attempts = job.attempts() if job.ranks > 1 else []
    ranks = attempts[-1].ranks if attempts else None
    data = job.data_summary() if job.attempt else None
    warnings = result_warnings(job)
    print_job(job, loaded, ranks, data, _current_allocation(job), warnings=warnings)


def _current_allocation(job: "Job") -> "Allocation | None":
    """The allocation that the job waits for or runs in; None without one that is submitted."""
    if job.source == Source.TRACKED or not (job.state == State.QUEUED or job.state.is_active):
        return None
    try:
        allocations = job.allocations()
    except NotFound:  # a server of 0.6.0 or before
        return None
    submitted = [row for row in allocations if row.external_id is not None and row.ended_at is None]
    return submitted[-1] if submitted else None
