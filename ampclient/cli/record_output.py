"""What a job has left, as tables: events, attempts, files; and what it printed, as it is."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from ampclient import formats
from ampclient.cli.output import ago, facts_text, json_text, lasted, print_table
from ampclient.formats import UNKNOWN

if TYPE_CHECKING:
    from ampclient.views import Artifact, Attempt, JobEvent, LogEntry


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
            formats.printable(facts_text(event.data)),
        )
        for event in events
    ]
    print_table(columns, rows)


def print_attempts(attempts: Iterable["Attempt"]) -> None:
    """One row for each time that a worker took the job."""
    from ampclient.tables import Column

    columns = (
        Column("ATTEMPT", right=True),
        Column("STARTED", gives_way=2),
        Column("TOOK", right=True),
        Column("WAITED", right=True, gives_way=3),
        Column("FIRST STEP", right=True),
        Column("WORKER", gives_way=1),
        Column("OUTCOME"),
        Column("WHY", shrinks_to=24, folds=True),
    )
    rows = [
        (
            str(attempt.attempt),
            formats.moment(attempt.started_at),
            lasted(attempt.started_at, attempt.finished_at),
            formats.duration(attempt.waited_s),
            UNKNOWN if attempt.first_step is None else str(attempt.first_step),
            attempt.worker_id,
            attempt.outcome or "goes on",
            formats.printable(attempt.message or attempt.reason or UNKNOWN),
        )
        for attempt in attempts
    ]
    print_table(columns, rows)


def print_artifacts(artifacts: Iterable["Artifact"]) -> None:
    """One row for each file."""
    from ampclient.tables import Column

    columns = (
        Column("PATH"),
        Column("KIND"),
        Column("STEP", right=True, gives_way=2),
        Column("SIZE", right=True),
        Column("SHA256", gives_way=1),
        Column("AGE", right=True, gives_way=3),
    )
    rows = [
        (
            formats.printable(artifact.path),
            artifact.kind,
            UNKNOWN if artifact.step is None else str(artifact.step),
            formats.size(artifact.size_bytes),
            artifact.sha256[:12],
            ago(artifact.created_at),
        )
        for artifact in artifacts
    ]
    print_table(columns, rows)


def print_log(entries: Iterable["LogEntry"], *, as_json: bool) -> int:
    """The text as it was printed, or a JSON document a line; each piece as soon as it comes.

    Answers with the number of pieces.
    """
    count = 0
    for count, entry in enumerate(entries, 1):  # noqa: B007 - it is what is answered
        if as_json:
            text = f"{json_text(entry.to_json())}\n"
        else:
            text = formats.log_text(entry.text) if sys.stdout.isatty() else entry.text
        typer.echo(text, nl=False, color=True)  # else it leaves colours out of a pipe
    return count
