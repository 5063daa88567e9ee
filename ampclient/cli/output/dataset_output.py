"""Prints datasets, their versions, columns and first rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from ampclient._display import formats
from ampclient.cli.output.tables import ago, json_text, print_fields, print_table

if TYPE_CHECKING:
    from ampspec.api.datasets import Dataset, DatasetVersion, ListedDatasetVersion

MAX_ROWS: Final = 10
MAX_CELL: Final = 40
MAX_NAMES: Final = 20


def print_datasets(datasets: Iterable["Dataset"]) -> None:
    """One row for each dataset."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("DATASET"),
        TableColumn("NEWEST", align_right=True),
        TableColumn("VERSIONS", align_right=True, drop_order=2),
        TableColumn("KIND", drop_order=3),
        TableColumn("ROWS", align_right=True),
        TableColumn("SIZE", align_right=True),
        TableColumn("UPLOADED", align_right=True, drop_order=1),
    )
    rows = [
        (
            dataset.name,
            str(dataset.newest.number),
            str(dataset.version_count),
            dataset.newest.kind or formats.UNKNOWN,
            _rows(dataset.newest),
            formats.size(dataset.newest.size_bytes),
            ago(dataset.newest.created_at),
        )
        for dataset in datasets
    ]
    print_table(columns, rows)


def print_dataset(versions: Iterable["ListedDatasetVersion"]) -> None:
    """One row for each version."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("VERSION"),
        TableColumn("FILE", min_width=12),
        TableColumn("KIND", drop_order=3),
        TableColumn("ROWS", align_right=True),
        TableColumn("SIZE", align_right=True),
        TableColumn("UPLOADED", align_right=True, drop_order=1),
        TableColumn("BY", min_width=8, drop_order=2),
    )
    rows = [
        (
            version.reference,
            version.file_name,
            version.kind or formats.UNKNOWN,
            _rows(version),
            formats.size(version.size_bytes),
            ago(version.created_at),
            version.created_by or formats.UNKNOWN,
        )
        for version in versions
    ]
    print_table(columns, rows)


def describe_version(version: "DatasetVersion") -> str:
    """What the server found in a file: `csv, 120 rows; columns age int64, city string`."""
    if version.message:
        return formats.printable(version.message)
    columns = version.columns or []
    parts = [f"{version.kind or 'a format without a reader'}, {_rows(version)} rows"]
    if columns:
        names = [f"{column.get('name')} {column.get('dtype', '')}".strip() for column in columns]
        parts.append(f"columns {_listed(names)}")
    missing = [
        f"{column.get('name')} {_missing(column):,}" for column in columns if _missing(column)
    ]
    if missing:
        parts.append(f"missing values {_listed(missing)}")
    for column in columns[:MAX_NAMES]:
        if isinstance(classes := column.get("classes"), list):
            parts.append(f"{column.get('name')} is {_listed(classes)}")
    if version.left_out:
        parts.append(f"left out {_left_out(version.left_out)}")
    return formats.printable("; ".join(parts))


def print_version(version: "DatasetVersion") -> None:
    """The fields of a version, its columns and its first rows."""
    print_fields(
        [
            ("version", version.reference),
            ("file", version.file_name),
            ("size", formats.size(version.size_bytes)),
            ("sha256", version.sha256),
            ("kind", version.kind or formats.UNKNOWN),
            ("rows", _rows(version)),
            *([("splits", _pairs(version.splits))] if version.splits else []),
            *([("read with", _pairs(_told_options(version)))] if version.options else []),
            *([("left out", _left_out(version.left_out))] if version.left_out else []),
            ("uploaded", f"{ago(version.created_at)} by {version.created_by or formats.UNKNOWN}"),
            *([("message", version.message)] if version.message else []),
        ]
    )
    if version.columns:
        typer.echo()
        _print_columns(version.columns)
    preview = (version.preview or {}).get("rows") or []
    if preview:
        typer.echo()
        _print_preview(preview[:MAX_ROWS])


def print_newest_columns(version: "DatasetVersion") -> None:
    """The columns of the newest version, after the table of all versions."""
    if version.columns:
        typer.echo(f"\ncolumns of {version.reference}")
        _print_columns(version.columns)


def _missing(column: Mapping[str, Any]) -> int:
    """The rows of a described column without a value, or with NaN."""
    counts = (column.get("missing"), column.get("nan"))
    return sum(count for count in counts if isinstance(count, int))


def _told_options(version: "DatasetVersion") -> dict[str, Any]:
    """The options that say something: none of the usual values."""
    usual = {
        **{"kind": version.kind, "encoding": "utf-8", "quote": '"', "missing": "error"},
        **{"channels": 3, "resample": "bilinear"},
    }
    return {
        name: value
        for name, value in (version.options or {}).items()
        if value not in (None, False, "", [], {}, 0) and usual.get(name) != value
    }


def _left_out(parts: Sequence[Mapping[str, str]]) -> str:
    return formats.printable(_listed([f"{part['name']}: {part['reason']}" for part in parts]))


def _pairs(values: Mapping[str, Any]) -> str:
    return formats.printable(
        ", ".join(f"{name} {json_text(value)}" for name, value in values.items()) or "its defaults"
    )


def _print_columns(columns: Sequence[Mapping[str, Any]]) -> None:
    from ampclient._display.terminal_table import TableColumn

    heads = (
        TableColumn("COLUMN"),
        TableColumn("DTYPE"),
        TableColumn("SHAPE"),
        TableColumn("MISSING", align_right=True),
        TableColumn("CLASSES"),
    )
    rows = [
        (
            formats.printable(str(column.get("name", ""))),
            str(column.get("dtype", formats.UNKNOWN)),
            _cell(column.get("shape", formats.UNKNOWN)),
            formats.UNKNOWN if "missing" not in column else f"{_missing(column):,}",
            _cell(column.get("classes", formats.UNKNOWN)),
        )
        for column in columns
    ]
    print_table(heads, rows)


def _print_preview(rows: Sequence[Mapping[str, Any]]) -> None:
    from ampclient._display.terminal_table import TableColumn

    names = list(dict.fromkeys(name for row in rows for name in row))
    heads = [TableColumn(formats.printable(name), min_width=6) for name in names]
    print_table(heads, [tuple(_cell(row.get(name, "")) for name in names) for row in rows])


def _listed(names: Sequence[Any]) -> str:
    return ", ".join([*map(str, names[:MAX_NAMES]), *(["…"] if len(names) > MAX_NAMES else [])])


def _cell(value: Any) -> str:
    text = formats.printable(value if isinstance(value, str) else json_text(value))
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


def _rows(version: "ListedDatasetVersion") -> str:
    return formats.UNKNOWN if version.rows is None else f"{version.rows:,}"
