"""`ampctl model alias`, `promote`, `gate` and `history`: which version has which alias."""

from operator import attrgetter
from typing import Annotated

import typer

from ampclient.cli.exit_status import ExitStatus
from ampclient.cli.models.arguments import (
    IfVersion,
    Name,
    NameOrVersion,
    Number,
    Reason,
    checked,
    version_reference,
)
from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_items
from ampclient.cli.output.model_output import print_history, print_promotion
from ampclient.cli.output.tables import print_json
from ampspec.references.model_reference import ModelReference

Alias = Annotated[
    str, typer.Option("--alias", metavar="ALIAS", help="Such as champion.", show_default=False)
]
Assertions = Annotated[
    list[str] | None,
    typer.Option(
        "--assert",
        metavar="ASSERTION",
        help="What must hold, for example 'val_accuracy >= base - 0.5 points' or 'val_loss <= "
        "0.3'; base is the version that has the alias; repeatable.",
        show_default=False,
    ),
]


def alias(
    context: typer.Context,
    name: NameOrVersion,
    alias_name: Annotated[
        str, typer.Argument(metavar="ALIAS", help="Such as champion.", show_default=False)
    ],
    version: Number = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias.")] = False,
    if_version: IfVersion = None,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Give an alias to a version without a check, or remove it; see promote for checks."""
    if remove and version is not None:
        raise typer.BadParameter("expected either a VERSION or --remove", param_hint="VERSION")
    models = client_of(context).models
    if remove:
        change = checked(
            lambda: models.remove_alias(name, alias_name, if_version=if_version, reason=reason)
        )
    else:
        reference = version_reference(name, version)
        change = checked(
            lambda: models.set_alias(reference, alias_name, if_version=if_version, reason=reason)
        )
    if as_json:
        print_json(change.to_json())
    else:
        old_version = (
            "no version" if change.from_number is None else f"version {change.from_number}"
        )
        new_version = "removed" if change.to_number is None else f"version {change.to_number}"
        typer.echo(f"{change.alias}: {old_version} → {new_version}")


def promote(
    context: typer.Context,
    name: NameOrVersion,
    version: Number = None,
    *,
    alias_name: Alias,
    assertions: Assertions = None,
    if_version: IfVersion = None,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Give an alias to a version if assertions hold, those of the alias's gate as well.

    The server checks them and keeps the evidence. The exit status is 1 if one does not hold, or if
    the validation examples do not tell: then it says what would settle it.
    """
    reference = version_reference(name, version)
    change = checked(
        lambda: client_of(context).models.promote(
            reference,
            alias_name,
            assertions or [],
            if_version=if_version,
            reason=reason,
            raise_if_refused=False,
        )
    )
    if as_json:
        print_json(change.to_json())
    else:
        # The number of what `NAME@ALIAS` named, which may be the alias that has just moved.
        model_name = ModelReference.parse(reference).name
        print_promotion(f"{model_name}:{change.to_number}", change)
    if not change.changed:
        raise typer.Exit(ExitStatus.FAILED)


def gate(
    context: typer.Context,
    name: Name,
    *,
    alias_name: Alias,
    assertions: Assertions = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the gate.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set the assertions that every promotion to an alias must satisfy, or remove them."""
    if remove == bool(assertions):
        raise typer.BadParameter("expected either --assert or --remove", param_hint="--assert")
    gates = {alias_name: None if remove else assertions}
    model = checked(lambda: client_of(context).models.update(name, gates=gates))
    if as_json:
        print_json(model.to_json())
    else:
        typer.echo("\n".join(model.gates.get(alias_name, [])) or f"{alias_name} has no gate.")


def history(
    context: typer.Context,
    name: Name,
    *,
    alias_name: Annotated[
        str | None,
        typer.Option("--alias", metavar="ALIAS", help="Only this alias.", show_default=False),
    ] = None,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List who gave which alias to which version, and the promotions that were refused."""
    models = client_of(context).models
    changes = checked(lambda: list(models.history(name, alias=alias_name, limit=limit)))
    print_items(
        changes,
        chosen(output, as_json=as_json),
        print_history,
        name=attrgetter("id"),
        empty="No alias was ever set.",
    )
