"""`ampctl compare`: jobs side by side, relative to a baseline."""

from typing import Annotated

import typer

from ampclient.cli.compare_output import print_comparison
from ampclient.cli.options import AsJson, client_of, suggest_jobs
from ampclient.cli.output import print_json
from ampclient.cli.shell_completion import job_ids
from ampclient.errors import NotFound

MIN_JOBS, MAX_JOBS = 2, 10

JobIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID", help="Ids of 2 to 10 jobs.", show_default=False, autocompletion=job_ids()
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Job to compare the others with (default: the first).",
        show_default=False,
        autocompletion=job_ids(),
    ),
]


def compare(
    context: typer.Context, ids: JobIds, *, baseline: Baseline = None, as_json: AsJson = False
) -> None:
    """Compare jobs: specs, results, speed-up, and difference of the training loss.

    Speed-up: median examples per second relative to the baseline. Difference of the training loss
    from the baseline: of the mean loss over the last 10 % of the steps that both jobs have.
    """
    wanted = list(dict.fromkeys([*ids, *([baseline] if baseline else [])]))
    if not MIN_JOBS <= len(wanted) <= MAX_JOBS:
        raise typer.BadParameter(
            f"expected {MIN_JOBS} to {MAX_JOBS} different job ids", param_hint="ID"
        )
    client = client_of(context)
    try:
        comparison = client.compare(wanted, baseline=baseline)
    except NotFound as error:
        unknown = next((id_ for id_ in wanted if id_ in error.detail), "")
        detail = f"{error.detail} {suggest_jobs(client, unknown)}"
        raise NotFound(detail, code=error.code, status=error.status) from None
    if as_json:
        print_json(comparison.to_json())
    else:
        print_comparison(comparison)
