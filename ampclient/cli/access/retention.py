"""`ampctl retention`: set, show, preview and remove the retention rules of a project."""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.options import AsJson, client_of
from ampclient.cli.output.tables import print_json, print_table

if TYPE_CHECKING:
    from ampspec.api.retention import LabelFilters, ProjectRetention, RetentionMatch, RetentionRule

group = typer.Typer(
    help="Set what is deleted of a project's jobs, and when (for admins).", no_args_is_help=True
)


MAX_DAYS: Final = 36_500
ID_CHARACTERS: Final = 8


class What(StrEnum):
    """What a rule deletes."""

    JOBS = "jobs"
    CHECKPOINTS = "checkpoints"
    LOGS = "logs"
    AUDIT = "audit"


class EndedState(StrEnum):
    """The states in which a job has ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ProjectName = Annotated[
    str, typer.Argument(metavar="PROJECT", help="The project.", show_default=False)
]


def _days(text: str) -> float:
    """A number of days above 0; a NaN is neither above nor below."""
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days <= MAX_DAYS:
        raise typer.BadParameter(
            f"expected days, above 0 and up to {MAX_DAYS:,}; received {text!r}"
        )
    return days


@group.command(name="set")
def set_(
    context: typer.Context,
    project: ProjectName,
    what: Annotated[
        What, typer.Argument(metavar="jobs|checkpoints|logs|audit", show_default=False)
    ],
    *,
    after_days: Annotated[
        float,
        typer.Option(
            "--after-days",
            parser=_days,
            metavar="N",
            help="Days since the end of the job, or since the entry of the audit log.",
            show_default=False,
        ),
    ],
    states: Annotated[
        list[EndedState] | None,
        typer.Option("--state", help="Only jobs in this state. Repeatable.", show_default=False),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="KEY[=VALUE]",
            help="Only jobs with this label. Repeatable.",
            show_default=False,
        ),
    ] = None,
    except_labels: Annotated[
        list[str] | None,
        typer.Option(
            "--except-label",
            metavar="KEY[=VALUE]",
            help="No job with this label. Repeatable.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        int, typer.Option(min=0, max=1, help="Of checkpoints: the newest that stay of a job.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Add a rule, or change the one with the same kind, states and labels.

    Rules are applied each hour, first an hour from now; `preview` says what they would delete.
    """
    from ampspec.api.retention import RetentionRule

    rule = RetentionRule(
        delete=what.value,
        after_days=after_days,
        states=[state.value for state in states or ()],
        labels=_labels(labels),
        except_labels=_labels(except_labels),
        keep=keep,
    )
    retention = client_of(context).retention
    rules = [
        stored for stored in retention.get(project).rules if _filters(stored) != _filters(rule)
    ]
    _print(retention.set(project, [*rules, rule]), as_json=as_json)


@group.command()
def show(context: typer.Context, project: ProjectName, as_json: AsJson = False) -> None:
    """Show the rules of a project."""
    _print(client_of(context).retention.get(project), as_json=as_json)


@group.command()
def preview(context: typer.Context, project: ProjectName, as_json: AsJson = False) -> None:
    """Show what the rules of a project would delete now; nothing is changed."""
    retention_preview = client_of(context).retention.preview(project)
    if as_json:
        print_json(retention_preview.to_json())
    elif matches := retention_preview.items:
        _print_rules([match.rule for match in matches], matches)
    else:
        typer.echo(f"The project {project} has no retention rules: nothing is deleted.")


@group.command()
def remove(
    context: typer.Context,
    project: ProjectName,
    rule_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A rule, as `show` lists it.", show_default="all"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove a rule of a project by its id, or all.

    The id stands for the content of the rule: the same command twice removes no other rule.
    """
    retention = client_of(context).retention
    rules = {_rule_id(rule): rule for rule in retention.get(project).rules}
    if rule_id is None:
        retention.remove(project)
    elif rule_id not in rules:
        raise typer.BadParameter(
            f"the project {project} has no rule {rule_id!r}; its rules are "
            f"{', '.join(rules) or 'none'} (`ampctl retention show {project}`)"
        )
    else:
        retention.set(project, [rule for name, rule in rules.items() if name != rule_id])
    _print(retention.get(project), as_json=as_json)


def _rule_id(rule: "RetentionRule") -> str:
    """What stands for the content of a rule, wherever it is in the list."""
    content = json.dumps(rule.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:ID_CHARACTERS]


def _filters(rule: "RetentionRule") -> dict[str, object]:
    """What tells rules apart: all but the numbers."""
    return rule.model_dump(exclude={"after_days", "keep"})


def _labels(texts: Sequence[str] | None) -> "LabelFilters":
    parts = [text.partition("=") for text in texts or ()]
    if any(not key for key, _, _ in parts):
        raise typer.BadParameter("expected KEY or KEY=VALUE, as in team=vision")
    return {key: value if equals else None for key, equals, value in parts}


def _print(retention: "ProjectRetention", *, as_json: bool) -> None:
    if as_json:
        print_json(retention.to_json())
    elif not retention.rules:
        typer.echo(f"The project {retention.project} has no retention rules: nothing is deleted.")
    else:
        _print_rules(retention.rules)
        if retention.next_run_at is not None:
            typer.echo(f"Applied next at {formats.moment(retention.next_run_at)}.", err=True)


def _print_rules(
    rules: Sequence["RetentionRule"], matches: Sequence["RetentionMatch"] | None = None
) -> None:
    """One row for each rule, with what it would delete if that is known."""
    from ampclient._display.terminal_table import TableColumn

    columns = [
        TableColumn("ID"),
        TableColumn("DELETE"),
        TableColumn("AFTER", align_right=True),
        TableColumn("STATES"),
        TableColumn("LABELS"),
        TableColumn("EXCEPT"),
        TableColumn("KEEP", align_right=True),
    ]
    if matches is not None:
        columns += [
            TableColumn("COUNT", align_right=True),
            TableColumn("SIZE", align_right=True),
            TableColumn("FIRST", min_width=12, wraps=True),
        ]
    rows = [
        (
            _rule_id(rule),
            rule.delete,
            f"{rule.after_days:g} d",
            " ".join(rule.states) or "all",
            _label_text(rule.labels),
            _label_text(rule.except_labels),
            str(rule.keep) if rule.delete == "checkpoints" else UNKNOWN,
            *(_match_cells(matches[index]) if matches is not None else ()),
        )
        for index, rule in enumerate(rules)
    ]
    print_table(columns, rows)


def _match_cells(match: "RetentionMatch") -> tuple[str, str, str]:
    size = UNKNOWN if match.size_bytes is None else formats.size(match.size_bytes)
    return str(match.count), size, " ".join(match.ids) or UNKNOWN


def _label_text(labels: "LabelFilters") -> str:
    texts = [key if value is None else f"{key}={value}" for key, value in labels.items()]
    return formats.printable(" ".join(texts)) or UNKNOWN
