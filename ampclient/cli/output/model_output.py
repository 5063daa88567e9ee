"""Prints models, their versions, files, and the history of their aliases."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from ampclient._display import formats
from ampclient.cli.output.tables import ago, print_fields, print_table

if TYPE_CHECKING:
    from ampspec.api.models import AliasChange, Model, ModelVersion

SIGNS: Final = {"passed": "✓", "failed": "✗", "undecided": "?", "skipped": "–"}
MAX_METRICS: Final = 3
"""In a table."""


def print_models(models: Iterable["Model"]) -> None:
    """One row for each model."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("MODEL"),
        TableColumn("NEWEST", align_right=True),
        TableColumn("VERSIONS", align_right=True, drop_order=2),
        TableColumn("ALIASES", min_width=12),
        TableColumn("METRICS", min_width=12, drop_order=3),
        TableColumn("REGISTERED", align_right=True, drop_order=1),
    )
    rows = [
        (
            model.name,
            str(model.newest.number),
            str(model.version_count),
            ", ".join(f"{alias} {number}" for alias, number in model.aliases.items()),
            _metrics(model.newest),
            ago(model.newest.created_at),
        )
        for model in models
    ]
    print_table(columns, rows)


def print_versions(versions: Iterable["ModelVersion"]) -> None:
    """One row for each version."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("VERSION"),
        TableColumn("ALIASES", min_width=8),
        TableColumn("METRICS", min_width=12),
        TableColumn("POLICY", drop_order=3),
        TableColumn("JOB", min_width=12, drop_order=4),
        TableColumn("REGISTERED", align_right=True, drop_order=1),
        TableColumn("BY", min_width=8, drop_order=2),
    )
    rows = [
        (
            version.reference,
            ", ".join(version.aliases),
            _metrics(version),
            str((version.lineage.get("precision") or {}).get("policy") or formats.UNKNOWN),
            version.job_id or "deleted",
            ago(version.created_at),
            version.created_by or formats.UNKNOWN,
        )
        for version in versions
    ]
    print_table(columns, rows)


def print_model_version(version: "ModelVersion") -> None:
    """The fields of a version, its files, inputs and outputs."""
    lineage = version.lineage
    data, code = lineage.get("data") or {}, lineage.get("code") or {}
    source = data.get("source") or {}
    by = version.created_by or formats.UNKNOWN
    print_fields(
        [
            ("version", version.reference),
            ("aliases", ", ".join(version.aliases) or "none"),
            ("registered", f"{ago(version.created_at)} by {by}"),
            ("job", f"{formats.printable(version.job_name)} ({version.job_id or 'deleted'})"),
            ("data", str(data.get("reference") or source.get("kind") or formats.UNKNOWN)),
            ("code", str(code.get("bundle") or code.get("package") or code.get("kind"))),
            ("study", str(lineage.get("study") or "none")),
            ("policy", str((lineage.get("precision") or {}).get("policy") or formats.UNKNOWN)),
            *(
                (formats.metric_label(name), formats.metric(name, value))
                for name, value in _shown(version)
            ),
            *([("note", formats.printable(version.note))] if version.note else []),
            *([("tags", _tags(version))] if version.tags else []),
            *(
                [("deleted", f"{ago(version.deleted_at)} by {version.deleted_by}")]
                if version.deleted_at is not None
                else []
            ),
        ]
    )
    typer.echo()
    _print_files(version)


def print_history(changes: Iterable["AliasChange"]) -> None:
    """One row for each change of an alias."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("WHEN", align_right=True),
        TableColumn("ALIAS"),
        TableColumn("FROM", align_right=True),
        TableColumn("TO", align_right=True),
        TableColumn("OUTCOME"),
        TableColumn("BY", min_width=8, drop_order=1),
        TableColumn("REASON", min_width=24, wraps=True),
    )
    rows = [
        (
            ago(change.created_at),
            change.alias,
            formats.UNKNOWN if change.from_number is None else str(change.from_number),
            formats.UNKNOWN if change.to_number is None else str(change.to_number),
            change.outcome,
            change.created_by or formats.UNKNOWN,
            formats.printable(_reason(change)),
        )
        for change in changes
    ]
    print_table(columns, rows)


def _reason(change: "AliasChange") -> str:
    """What was written as the reason, and the checks with the values that were compared."""
    checks = [
        f"{SIGNS.get(check.outcome, formats.UNKNOWN)} {check.message}"
        for check in change.checks or ()
    ]
    return "; ".join([*([change.reason] if change.reason else []), *checks])


def print_promotion(reference: str, change: "AliasChange") -> None:
    """The checks of a promotion, and what came of it."""
    for check in change.checks or ():
        sign = SIGNS.get(check.outcome, formats.UNKNOWN)
        typer.echo(f"{sign} {formats.printable(check.message)}")
    if change.changed:
        typer.echo(f"{reference} is {change.alias} now.")
    else:
        held_by = (
            "no version has it" if change.from_number is None else f"it stays {change.from_number}"
        )
        typer.echo(f"{change.outcome}: {change.alias} was not changed, {held_by}.")


def _print_files(version: "ModelVersion") -> None:
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("FORMAT"),
        TableColumn("FILE"),
        TableColumn("SIZE", align_right=True),
        TableColumn("CHECK OR REASON", min_width=20),
    )
    rows = [
        (
            file.format,
            file.file_name or file.state,
            formats.UNKNOWN if file.size_bytes is None else formats.size(file.size_bytes),
            formats.printable(file.reason or file.checked or ""),
        )
        for file in version.files
    ]
    print_table(columns, rows)


def _shown(version: "ModelVersion") -> Sequence[tuple[str, float]]:
    return list(version.metrics.items())


def _metrics(version: "ModelVersion") -> str:
    return ", ".join(
        f"{formats.metric_label(name)} {formats.metric(name, value)}"
        for name, value in _shown(version)[:MAX_METRICS]
    )


def _tags(version: Any) -> str:
    return formats.printable(", ".join(f"{key}={value}" for key, value in version.tags.items()))
