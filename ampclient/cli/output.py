"""Jobs, events and workers as tables on standard output, or anything as JSON."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from ampclient import formats
from ampclient.formats import UNKNOWN

if TYPE_CHECKING:
    from ampclient.tables import Column, Row
    from ampclient.views import JobEvent, JobView, Validated, Worker


def print_json(document: Any) -> None:
    """The document, indented."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_jobs(jobs: Iterable["JobView"]) -> None:
    """One row for each job."""
    from ampclient.progress.table import styled_state
    from ampclient.tables import Column

    columns = (
        Column("ID"),
        Column("NAME", shrinks_to=12),
        Column("STATE"),
        Column("POLICY", gives_way=1),
        Column("STEP", right=True),
        Column("LOSS", right=True),
        Column("SKIPPED", right=True, gives_way=3),
        Column("CREATED", right=True, gives_way=2),
    )
    rows = [
        (
            job.id,
            formats.printable(job.name),
            styled_state(job.state),
            job.policy,
            formats.steps(job.step, job.total_steps),
            formats.number(job.latest.loss if job.latest else None),
            str(job.skipped),
            _ago(job.created_at),
        )
        for job in jobs
    ]
    _print_table(columns, rows)


def print_job(job: "JobView") -> None:
    """Everything that is worth knowing about a job, a line for each fact."""
    facts = [("id", job.id), ("name", job.name), ("state", _state(job)), *_outcome(job)]
    facts += [("created", formats.moment(job.created_at)), ("took", _took(job))]
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        typer.echo(f"{name:<{width}}  {formats.printable(value)}")


def print_validated(validated: "Validated", *, layers: bool) -> None:
    """The figures of a job, and a paragraph for each finding."""
    from ampcore.preflight.text import report_lines

    report = {**validated.to_json(), "figures": validated.figures, "layers": validated.layers}
    for line in report_lines(_printable(report), layers=layers):
        typer.echo(line)


def print_events(events: Iterable["JobEvent"]) -> None:
    """One row for each entry of the ledger."""
    from ampclient.tables import Column

    columns = (
        Column("SEQ", right=True),
        Column("TIME", gives_way=1),
        Column("STEP", right=True),
        Column("EVENT"),
        Column("FACTS", shrinks_to=24, folds=True),
    )
    rows = [
        (
            str(event.seq),
            formats.moment(event.created_at),
            UNKNOWN if event.step is None else str(event.step),
            event.type,
            formats.printable(_facts(event.data)),
        )
        for event in events
    ]
    _print_table(columns, rows)


def print_workers(workers: Iterable["Worker"]) -> None:
    """One row for each worker."""
    from ampclient.tables import Column

    columns = (
        Column("ID"),
        Column("HOST", shrinks_to=12),
        Column("PID", right=True, gives_way=2),
        Column("STATE"),
        Column("BUSY", right=True),
        Column("VERSION", gives_way=1),
        Column("LAST SEEN", right=True),
        Column("JOBS", shrinks_to=12, folds=True),
    )
    rows = [
        (
            worker.id,
            formats.printable(worker.hostname),
            str(worker.pid),
            worker.state,
            f"{len(worker.jobs)}/{worker.slots}",
            worker.version,
            _ago(worker.last_seen_at),
            " ".join(worker.jobs) or UNKNOWN,
        )
        for worker in workers
    ]
    _print_table(columns, rows)


def _state(job: "JobView") -> str:
    reason = f" ({job.reason})" if job.reason else ""
    message = f": {job.message}" if job.message else ""
    return f"{job.state}{reason}{message}"


def _outcome(job: "JobView") -> list[tuple[str, str]]:
    facts = [
        ("model", job.model),
        ("policy", job.policy),
        ("labels", " ".join(f"{key}={value}" for key, value in job.labels.items()) or UNKNOWN),
        ("attempt", str(job.attempt)),
        ("step", formats.steps(job.step, job.total_steps)),
        ("skipped", str(job.skipped)),
    ]
    if job.summary is not None:
        facts += [
            ("loss", formats.number(job.summary.final_loss)),
            ("loss scale", formats.loss_scale(job.summary.final_loss_scale)),
            ("validation loss", formats.number(job.summary.val_loss)),
            ("validation accuracy", formats.percent(job.summary.val_accuracy)),
        ]
    elif job.latest is not None:
        facts += [
            ("loss", formats.number(job.latest.loss)),
            ("loss scale", formats.loss_scale(job.latest.loss_scale)),
        ]
    facts.append(("examples/s", formats.rate(job.examples_per_s)))
    if job.summary is not None and job.summary.model_file:
        folder = f"jobs/{job.id}/attempt-{job.attempt}"
        place = f"{folder}/{job.summary.model_file} (in the server's data folder)"
        facts.append(("model file", place))
    return facts


def _ago(moment: datetime) -> str:
    return formats.ago((datetime.now(UTC) - moment).total_seconds())


def _took(job: "JobView") -> str:
    if job.started_at is None:
        return UNKNOWN
    return formats.duration(
        ((job.finished_at or datetime.now(UTC)) - job.started_at).total_seconds()
    )


def _facts(data: dict[str, Any]) -> str:
    return " ".join(f"{name}={_fact(value)}" for name, value in data.items())


def _printable(value: Any) -> Any:
    """The same with every text in it fit for a terminal."""
    match value:
        case str():
            return formats.printable(value)
        case dict():
            return {_printable(name): _printable(item) for name, item in value.items()}
        case list():
            return [_printable(item) for item in value]
    return value


def _fact(value: Any) -> str:
    match value:
        case float():
            return f"{value:.10g}"
        case str():
            return value
    return json.dumps(value, default=str)


def _print_table(columns: Sequence["Column"], rows: Sequence["Row"]) -> None:
    from rich.console import Console

    from ampclient.tables import fitted_table

    console = Console()
    if not console.is_terminal:
        # A pipe has no width: whole words, for grep and awk.
        console.width = 10_000
    console.print(fitted_table(columns, rows, console.width))
