"""Prints a comparison as tables: one column per job, the baseline first."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.output.tables import print_table, table_width

if TYPE_CHECKING:
    from ampclient._compare.checks import Checks
    from ampclient._compare.comparison import ComparedJob, Comparison

MAX_CELL_WIDTH: Final = (24, 80)
"""Maximum characters of a cell: on a terminal, so that two jobs fit side by side, and in a pipe."""
MAX_SIDE_BY_SIDE: Final = 10
"""More jobs have a row each."""
NAME: Final = "/name"
GAP: Final = 2
RESULT_LABELS: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    "state": ("state", str),
    "steps": ("steps", str),
    "skipped_share": ("skipped", formats.percent),
    "last_loss": ("last loss", formats.number),
    "best_loss": ("best loss", formats.number),
    "final_loss": ("final loss", formats.number),
    "median_examples_per_s": ("median examples/s", formats.rate),
    "steps_s": ("time in steps", formats.duration),
    "peak_memory_bytes": ("peak memory", formats.size),
}
"""The label and the format of each result."""

Line = tuple[str, list[str]]
"""The label of a row, and the cell of each job."""


def print_comparison(comparison: "Comparison") -> None:
    """Print the differences of the specs, the results, the speed-up and the loss difference."""
    width = table_width()
    lines = _lines(comparison, MAX_CELL_WIDTH[width is None])
    if len(comparison.jobs) > MAX_SIDE_BY_SIDE:
        lines = _transposed(lines)
    for number, indices in enumerate(_fitting(lines, width)):
        if number:
            typer.echo()
        _print(lines, indices)
    typer.echo(f"* baseline: {comparison.baseline}", err=True)


def print_checks(checks: "Checks") -> None:
    """Print a line for each assertion and job."""
    typer.echo()
    for check in checks:
        mark = {"passed": "passed ", "failed": "FAILED ", "skipped": "skipped"}[check.outcome]
        text = check.message if check.outcome == "failed" else check.assertion
        typer.echo(f"{mark}  {check.job.id}  {formats.printable(text)}")


def _lines(comparison: "Comparison", longest: int) -> list[Line]:
    """The rows, the first with the column headings; job names lose their common first words."""
    from ampclient.progress import distinct_names

    jobs = comparison.jobs
    names = distinct_names([compared.job for compared in jobs])
    lines = [("", [_title(compared, comparison.baseline) for compared in jobs])]
    lines += [("name", [names[compared.job.id] for compared in jobs])]
    lines += [
        (d.pointer, [_value(v) for v in d.values]) for d in comparison.spec if d.pointer != NAME
    ]
    results = {result.name: result.values for result in comparison.results}
    if None not in results.get("final_loss", [None]):
        results.pop("last_loss", None)  # the same as final_loss once all jobs have ended
    lines += [line for name, values in results.items() if (line := _result(name, values))]
    lines += [("speed-up", [formats.factor(compared.speedup) for compared in jobs])]
    drifts = [_drift(compared.loss_drift) for compared in jobs]
    lines += [("loss of last tenth of steps vs. baseline", drifts)]
    return [(word, [_cut(cell, longest) for cell in cells]) for word, cells in lines]


def _transposed(lines: Sequence[Line]) -> list[Line]:
    """A row for each job, headed by its id; the column of names is part of each table."""
    (_, titles), *body = lines
    rows = [(title, [cells[index] for _, cells in body]) for index, title in enumerate(titles)]
    return [("", [word for word, _ in body]), *rows]


def _print(lines: Sequence[Line], indices: Sequence[int]) -> None:
    """Print a table with these columns."""
    from ampclient._display.terminal_table import TableColumn

    (_, heads), *body = lines
    columns = [TableColumn(""), *(TableColumn(heads[index], align_right=True) for index in indices)]
    print_table(columns, [(word, *(cells[index] for index in indices)) for word, cells in body])


def _fitting(lines: Sequence[Line], width: int | None) -> list[list[int]]:
    """The columns of each table: the baseline or the names, and as many others as fit the width."""
    count = len(lines[0][1])
    if width is None:
        return [list(range(count))]
    base = next((p for p, head in enumerate(lines[0][1]) if head.startswith("*")), 0)
    widths = [GAP + max(len(cells[index]) for _, cells in lines) for index in range(count)]
    free = width - max(len(word) for word, _ in lines) - widths[base]
    tables: list[list[int]] = [[base]]
    for index in (p for p in range(count) if p != base):
        if len(tables[-1]) > 1 and sum(widths[p] for p in tables[-1][1:]) + widths[index] > free:
            tables.append([base])
        tables[-1].append(index)
    return tables


def _title(compared: "ComparedJob", baseline: str) -> str:
    return f"*{compared.job.id}" if compared.job.id == baseline else compared.job.id


def _value(value: Any) -> str:
    """The value of a field of a spec."""
    if value is None:
        return UNKNOWN
    return value if isinstance(value, str) else json.dumps(value)


def _cut(text: str, longest: int) -> str:
    shown = formats.printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def _result(name: str, values: Sequence[Any]) -> Line | None:
    """The row of a result; None if no job has it."""
    from ampspec.telemetry.metrics import is_metric  # loads NumPy

    if all(value is None for value in values):
        return None
    if is_metric(name):
        numbers = [None if value is None else float(value) for value in values]
        return formats.metric_label(name), [formats.metric(name, number) for number in numbers]
    word, written = RESULT_LABELS.get(name, (name.replace("_", " "), _value))
    return word, [UNKNOWN if value is None else written(value) for value in values]


def _drift(share: float | None) -> str:
    return formats.percent(share) if share is None or share <= 0 else f"+{formats.percent(share)}"
