"""`ampctl compare`: jobs beside each other, measured by one of them."""

from typing import Annotated

import typer

from ampclient.cli.compare_output import print_comparison
from ampclient.cli.completing import job_ids
from ampclient.cli.connect import AsJson, client_of
from ampclient.cli.output import print_json
from ampclient.cli.suggestions import meant
from ampclient.errors import NotFound

LEAST, MOST = 2, 10

JobIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID", help="Two to ten jobs.", show_default=False, autocompletion=job_ids()
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="The one that the others are measured by; left out: the first.",
        show_default=False,
        autocompletion=job_ids(),
    ),
]


def compare(
    context: typer.Context, ids: JobIds, *, baseline: Baseline = None, as_json: AsJson = False
) -> None:
    """Compare jobs: where their specs differ, what came of them, speed-up and drift of the loss.

    The speed-up is that of the median examples per second; the drift is that of the mean loss
    over the last tenth of the steps that both have.
    """
    wanted = list(dict.fromkeys([*ids, *([baseline] if baseline else [])]))
    if not LEAST <= len(wanted) <= MOST:
        raise typer.BadParameter(f"expected {LEAST} to {MOST} different jobs", param_hint="ID")
    client = client_of(context)
    try:
        comparison = client.compare(wanted, baseline=baseline)
    except NotFound as error:
        unknown = next((id_ for id_ in wanted if id_ in error.detail), "")
        detail = f"{error.detail} {meant(client, unknown)}"
        raise NotFound(detail, code=error.code, status=error.status) from None
    if as_json:
        print_json(comparison.to_json())
    else:
        print_comparison(comparison)
