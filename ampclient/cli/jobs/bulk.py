"""`ampctl cancel-many` and `delete-many`: change all jobs that match a filter."""

from typing import Annotated, Any

import typer

from ampclient.cli.jobs.actions import Permanent
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


def cancel_many(
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
    """Cancel all jobs that match the given filters, which are those of `list`."""
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
    _confirm("Cancel all jobs that match?", yes)
    ids = client_of(context).jobs.cancel_many(**filters, explanations=explanations)
    _print_ids(ids, "cancelled, or about to stop", as_json=as_json)


def delete_many(
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
    permanent: Permanent = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete all ended jobs that match the given filters, with their steps, logs and files."""
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
    _confirm("Delete all ended jobs that match, with their steps, logs and files?", yes)
    ids = client_of(context).jobs.delete_many(
        **filters, explanations=explanations, permanent=permanent
    )
    restorable = "" if permanent else "; `ampctl job restore ID` restores one"
    _print_ids(ids, f"deleted{restorable}", as_json=as_json)


def _confirm(question: str, is_confirmed: bool) -> None:
    if not is_confirmed:
        typer.confirm(question, abort=True, err=True)


def _print_ids(ids: list[str], what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(ids)
    else:
        typer.echo(f"{plural(len(ids), 'job')} {what}.")


def _filters(**values: Any) -> dict[str, Any]:
    filters = {name: value for name, value in values.items() if value is not None and value != []}
    if empty := [name for name, value in filters.items() if not value]:
        raise typer.BadParameter(f"an empty filter: {empty[0]}")  # as from an unset variable
    if not filters:
        raise typer.BadParameter("no filter: give --state, --label, --where, --q, … as for `list`")
    return filters
