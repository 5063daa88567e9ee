"""`ampctl job explain`: find the cause of a step."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ampclient.cli.jobs.watch import Wait, all_succeeded, followed
from ampclient.cli.options import AsJson, JobId, client_of, job_in
from ampclient.cli.output.tables import print_json
from ampclient.cli.submit.submit import IdempotencyKey
from ampspec.jobs import State

if TYPE_CHECKING:
    from ampclient._job.job import Job


def explain(
    context: typer.Context,
    job_id: JobId,
    step: Annotated[int, typer.Argument(min=0, metavar="STEP", help="The step, from 0.")],
    *,
    wait: Wait = False,
    again: Annotated[
        bool, typer.Option("--again", help="Repeat the step even if it was explained before.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show long lists in full.")] = False,
    key: IdempotencyKey = None,
    as_json: AsJson = False,
) -> None:
    """Repeat a step of a job exactly, to find the cause of a skip, a spike or a NaN loss.

    Without --wait, prints the answer if there is one, else the id of the new job. The cost is
    stated first, on standard error.
    """
    client = client_of(context)
    job = job_in(client, job_id)
    explaining = None if again else _earlier(job, step)
    if explaining is None:
        _print_cost(job, step)
        explanation = job.explain(step, idempotency_key=key)
    else:
        explanation = job_in(client, explaining)
    if wait and not explanation.state.is_terminal:
        [explanation] = followed([explanation])
    answer = explanation.answer()
    if answer is not None:
        _print_answer(answer, as_json=as_json, folded=not everything)
    elif as_json:
        print_json(explanation.to_json())
    elif explanation.state.is_terminal:
        typer.echo(f"{explanation.id} {explanation.state}: {explanation.message}", err=True)
    else:
        typer.echo(explanation.id)
    if wait:
        raise typer.Exit(all_succeeded([explanation]))


def _earlier(job: "Job", step: int) -> str | None:
    """The id of a job that has explained the step, or will; None without one."""
    ended_otherwise = (State.FAILED, State.CANCELLED)
    explanations = job.explanations(step=step)
    return next((e.job for e in explanations if e.state not in ended_otherwise), None)


def _print_cost(job: "Job", step: int) -> None:
    from ampspec.api.job.explanation_text import cost_line

    typer.echo(cost_line(job.explanation_cost(step).model_dump()), err=True)


def _print_answer(answer: dict[str, Any], *, as_json: bool, folded: bool) -> None:
    from ampspec.api.job.explanation_text import explanation_lines

    if as_json:
        print_json(answer)
    else:
        typer.echo("\n".join(explanation_lines(answer, folded=folded)))
