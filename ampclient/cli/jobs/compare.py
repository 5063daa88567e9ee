"""`ampctl compare`: jobs side by side, relative to a baseline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.options import AsJson, client_of, suggest_jobs
from ampclient.cli.output.compare_output import print_checks, print_comparison
from ampclient.cli.output.tables import print_json
from ampclient.cli.shell_completion import job_ids
from ampclient.errors import NotFound

if TYPE_CHECKING:
    from ampclient._compare.checks import Checks
    from ampclient._compare.comparison import Comparison

MIN_JOBS, MAX_JOBS = 2, 100

JobIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID", help="Ids of 2 to 100 jobs.", show_default=False, autocompletion=job_ids()
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
Assertions = Annotated[
    list[str] | None,
    typer.Option(
        "--assert",
        metavar="ASSERTION",
        help="Fail unless this holds for each job but the baseline, for example 'val_accuracy "
        "within 0.5 points', 'examples_per_s >= 0.95x' or 'skipped_share <= 1 %'; repeatable.",
        show_default=False,
    ),
]
JUnit = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the assertions as JUnit XML.",
        dir_okay=False,
        show_default=False,
    ),
]
Markdown = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Append a table of the assertions, for example to $GITHUB_STEP_SUMMARY.",
        dir_okay=False,
        show_default=False,
    ),
]


def compare(
    context: typer.Context,
    ids: JobIds,
    *,
    baseline: Baseline = None,
    assertions: Assertions = None,
    junit: JUnit = None,
    markdown: Markdown = None,
    as_json: AsJson = False,
) -> None:
    """Compare jobs: specs, results, speed-up, and difference of the training loss.

    More than ten jobs have a row each, others a column.

    Speed-up: median examples per second relative to the baseline. Difference of the training loss
    from the baseline: of the mean loss over the last 10 % of the steps that both jobs have.

    With --assert the exit status is 1 if an assertion does not hold or a job has not succeeded,
    and 2 if an assertion is malformed or names a value that a job does not have.
    """
    if (junit or markdown) and not assertions:
        raise typer.BadParameter("--junit and --markdown need --assert", param_hint="--assert")
    compared_ids = list(dict.fromkeys([*ids, *([baseline] if baseline else [])]))
    if not MIN_JOBS <= len(compared_ids) <= MAX_JOBS:
        raise typer.BadParameter(
            f"expected {MIN_JOBS} to {MAX_JOBS} different job ids", param_hint="ID"
        )
    client = client_of(context)
    try:
        comparison = client.compare(compared_ids, baseline=baseline)
    except NotFound as error:
        unknown = next((id_ for id_ in compared_ids if id_ in error.detail), "")
        detail = f"{error.detail} {suggest_jobs(client, unknown)}"
        raise NotFound(detail, code=error.code, status=error.status) from None
    checks = _checks(comparison, assertions)
    if checks is not None:
        if junit is not None:
            junit.write_text(checks.to_junit(), encoding="utf-8")
        if markdown is not None:
            with markdown.open("a", encoding="utf-8") as file:
                file.write(checks.to_markdown())
    if as_json:
        added = {} if checks is None else {"assertions": [check.to_json() for check in checks]}
        print_json(comparison.to_json() | added)
    else:
        print_comparison(comparison)
        if checks is not None:
            print_checks(checks)
    if checks is not None and not checks.passed:
        raise typer.Exit(ExitStatus.FAILED)


def _checks(comparison: "Comparison", assertions: list[str] | None) -> "Checks | None":
    """Raises BadParameter for an assertion that cannot be checked."""
    from ampspec.comparison.assertions import InvalidAssertion

    if not assertions:
        return None
    try:
        return comparison.check(assertions)
    except InvalidAssertion as error:
        raise typer.BadParameter(str(error), param_hint="--assert") from None
