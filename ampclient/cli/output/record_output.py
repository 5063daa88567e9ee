"""Prints the events, attempts, allocations and files of a job as tables, its log as text."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.output.tables import (
    ago,
    duration_between,
    fields_text,
    json_text,
    print_table,
    table_width,
)

if TYPE_CHECKING:
    from ampclient._display.event_groups import EventGroup
    from ampspec.api.job.allocations import Allocation
    from ampspec.api.job.artifacts import Artifact
    from ampspec.api.job.attempts import Attempt
    from ampspec.api.job.events import JobEvent
    from ampspec.api.job.logs import LogEntry

MAX_NAME_WIDTH: Final = 24
"""Maximum characters of a job's name before a line of its log."""
MAX_DATA_WIDTH: Final = 200
"""Maximum characters of an event's data on a terminal: tracebacks can have thousands."""


def print_events(events: Iterable["JobEvent"], *, show_all: bool = False) -> None:
    """One row per event, or per group of near-equal events in a row."""
    from ampclient._display.event_groups import EventGroup, group_events
    from ampclient._display.terminal_table import TableColumn

    groups = [EventGroup([event]) for event in events] if show_all else group_events(events)

    columns = (
        TableColumn("SEQ", align_right=True),
        TableColumn("TIME", drop_order=1),
        TableColumn("STEP", align_right=True),
        TableColumn("EVENT"),
        TableColumn("DATA", min_width=24, wraps=True),
    )
    rows = [
        (
            str(group.first.seq),
            formats.moment(group.first.created_at),
            _steps_text(group),
            group.first.type,
            formats.printable(_group_text(group)),
        )
        for group in groups
    ]
    print_table(columns, rows)


def _steps_text(group: "EventGroup") -> str:
    if group.steps is None:
        return UNKNOWN
    first, last = group.steps
    return str(first) if first == last else f"{first}–{last}"


def _group_text(group: "EventGroup") -> str:
    if len(group.events) == 1:
        return _shortened(_event_text(group.first))
    until = formats.moment(group.last.created_at)
    head = f"{len(group.events)} like this until {until} (--all shows each); the first: "
    return head + _shortened(_event_text(group.first))


def _event_text(event: "JobEvent") -> str:
    """The data of an event; that of `started` begins with the rows, columns and classes."""
    from ampspec.api.data_summary import DataSummary

    summary = DataSummary.from_event(event.data) if event.type == "started" else None
    if summary is None:
        return fields_text(event.data)
    facts = {name: value for name, value in event.data.items() if name != "data"}
    lines = [f"{title}: {text}" for title, text in summary.lines()]
    return "; ".join([*lines, fields_text(facts)])


def _shortened(text: str) -> str:
    """At most MAX_DATA_WIDTH characters on a terminal; all of them in a pipe and with -o wide."""
    if table_width() is None or len(text) <= MAX_DATA_WIDTH:
        return text
    return f"{text[: MAX_DATA_WIDTH - 1]}…"


def print_attempts(attempts: Iterable["Attempt"]) -> None:
    """One row per attempt."""
    from ampclient._display.terminal_table import TableColumn

    attempts = list(attempts)
    has_ranks = any(attempt.ranks for attempt in attempts)
    columns = (
        TableColumn("ATTEMPT", align_right=True),
        TableColumn("STARTED", drop_order=2),
        TableColumn("DURATION", align_right=True),
        TableColumn("WAITED", align_right=True, drop_order=3),
        TableColumn("FIRST STEP", align_right=True),
        TableColumn("WORKER", drop_order=1),
        *([TableColumn("RANKS", drop_order=4)] if has_ranks else []),
        TableColumn("OUTCOME"),
        TableColumn("MESSAGE", min_width=24, wraps=True),
    )
    rows = [
        (
            str(attempt.attempt),
            formats.moment(attempt.started_at),
            duration_between(attempt.started_at, attempt.finished_at),
            formats.duration(attempt.waited_s),
            UNKNOWN if attempt.first_step is None else str(attempt.first_step),
            _workers(attempt),
            *([_ranks(attempt)] if has_ranks else []),
            attempt.outcome or "running",
            formats.printable(attempt.message or attempt.reason or UNKNOWN),
        )
        for attempt in attempts
    ]
    print_table(columns, rows)


def _workers(attempt: "Attempt") -> str:
    """The worker, or those of all ranks, that of rank 0 first."""
    workers = dict.fromkeys(rank.worker_id for rank in attempt.ranks)
    return formats.printable(", ".join(workers) or attempt.worker_id or UNKNOWN)


def _ranks(attempt: "Attempt") -> str:
    """The number of ranks by state, for example `3 running, 1 failed`."""
    counts = Counter(rank.state for rank in attempt.ranks)
    return ", ".join(f"{count} {formats.printable(state)}" for state, count in counts.items())


def print_allocations(allocations: Iterable["Allocation"]) -> None:
    """One row per allocation; the expected start only if the batch system says one."""
    from ampclient._display.terminal_table import TableColumn

    allocations = list(allocations)
    has_start = any(allocation.expected_start_at for allocation in allocations)
    columns = (
        TableColumn("ATTEMPT", align_right=True),
        TableColumn("ENGINE", drop_order=2),
        TableColumn("ID"),
        TableColumn("STATE"),
        TableColumn("NODES"),
        *([TableColumn("EXPECTED START")] if has_start else []),
        TableColumn("CREATED", drop_order=3),
        TableColumn("ENDED", drop_order=4),
        TableColumn("NAME", drop_order=1),
        TableColumn("REASON", min_width=24, wraps=True),
    )
    rows = [
        (
            str(allocation.attempt),
            allocation.engine,
            formats.printable(allocation.external_id or UNKNOWN),
            formats.printable(allocation.state),
            formats.printable(allocation.nodes or UNKNOWN),
            *([formats.moment(allocation.expected_start_at)] if has_start else []),
            formats.moment(allocation.created_at),
            formats.moment(allocation.ended_at),
            formats.printable(allocation.name),
            formats.printable(allocation.reason or UNKNOWN),
        )
        for allocation in allocations
    ]
    print_table(columns, rows)


def print_artifacts(artifacts: Iterable["Artifact"]) -> None:
    """One row for each file."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("PATH"),
        TableColumn("KIND"),
        TableColumn("STEP", align_right=True, drop_order=2),
        TableColumn("SIZE", align_right=True),
        TableColumn("SHA256", drop_order=1),
        TableColumn("AGE", align_right=True, drop_order=3),
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
    """Print the log as text, or one JSON document per line, each entry as it arrives.

    Returns the number of entries.
    """
    count = 0
    for count, entry in enumerate(entries, 1):  # noqa: B007 - it is the return value
        if as_json:
            text = f"{json_text(entry.to_json())}\n"
        else:
            text = formats.log_text(entry.text) if sys.stdout.isatty() else entry.text
        typer.echo(text, nl=False, color=True)  # without it, click strips colours in a pipe
    return count


class LogLines:
    """Prints the logs of several jobs in whole lines, each after the name of its job."""

    def __init__(self, names: Mapping[str, str], *, as_json: bool) -> None:
        self._names = dict(names)
        self._as_json = as_json
        self._incomplete: dict[tuple[str, str], str] = {}

    def add(self, names: Mapping[str, str]) -> None:
        """Name further jobs; a job that has a name keeps it."""
        self._names = {**names, **self._names}

    def print(self, job_id: str, entry: "LogEntry") -> None:
        """Print the lines that an entry completes; with JSON, the entry itself with its job."""
        if self._as_json:
            typer.echo(json_text({"job": job_id, **entry.to_json()}))
            return
        stream = (job_id, entry.stream)
        *lines, begun = (self._incomplete.pop(stream, "") + entry.text).split("\n")
        self._incomplete[stream] = begun
        for line in lines:
            self._print_line(job_id, line)

    def end(self, job_id: str) -> None:
        """Print what is left of a job: its last lines, where no line break follows."""
        for stream in [stream for stream in self._incomplete if stream[0] == job_id]:
            if line := self._incomplete.pop(stream):
                self._print_line(job_id, line)

    def _print_line(self, job_id: str, line: str) -> None:
        width = min(max(map(len, self._names.values())), MAX_NAME_WIDTH)
        name = self._names[job_id]
        if len(name) > width:
            name = f"{name[: width - 1]}…"
        text = formats.log_text(line) if sys.stdout.isatty() else line
        for part in text.split("\n"):  # a carriage return has become a line break
            typer.echo(f"{name:<{width}} | {part}", color=True)
