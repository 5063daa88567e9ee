"""`ampctl cancel-many` and `delete-many`: change all jobs that match a filter."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ampclient.cli.jobs.jobs import (
    Explanations,
    Labels,
    Model,
    OfStudy,
    Policy,
    Project,
    States,
    Text,
    Where,
)
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.tables import print_json
from ampspec.documents.text import plural

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def _command(change: str, summary: str, question: str, what: str) -> Callable[..., None]:
    """A command with the filters of `list`.

    Args:
        change: The name of the method of `client.jobs`.
        summary: The help of the command.
        question: What is asked before.
        what: What is said of the jobs afterwards.
    """

    def run(
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
        yes: Yes = False,
        as_json: AsJson = False,
    ) -> None:
        filters = _filters(
            state=states,
            label=labels,
            metric=where,
            q=q,
            policy=policy,
            model=model,
            project=project,
            study=study,
        )
        if not yes:
            typer.confirm(question, abort=True, err=True)
        ids = getattr(client_of(context).jobs, change)(**filters, explanations=explanations)
        if as_json:
            print_json(ids)
        else:
            typer.echo(f"{plural(len(ids), 'job')} {what}.")

    run.__name__, run.__doc__ = change, summary
    return run


cancel_many = _command(
    "cancel_many",
    "Cancel all jobs that match the given filters, which are those of `list`.",
    "Cancel all jobs that match?",
    "cancelled, or about to stop",
)
delete_many = _command(
    "delete_many",
    "Delete all ended jobs that match the given filters, with their steps, logs and files.",
    "Delete all ended jobs that match, with their steps, logs and files?",
    "deleted",
)


def _filters(**values: Any) -> dict[str, Any]:
    filters = {name: value for name, value in values.items() if value is not None and value != []}
    if empty := [name for name, value in filters.items() if not value]:
        raise typer.BadParameter(f"an empty filter: {empty[0]}")  # as from an unset variable
    if not filters:
        raise typer.BadParameter("no filter: give --state, --label, --where, --q, … as for `list`")
    return filters
