"""Tracked runs: create one, store what its program sends, end it.

A tracked run is a job that no worker runs. Its program owns the attempt by a lease, as a worker
does, and every upload renews the lease. A program that goes on from an earlier step begins another
attempt, whose steps replace those of the attempts before. A run whose lease expired is lost; it
continues with its next upload, because the program may only have been unable to reach the server. A
run that has failed or was cancelled goes on when its program asks for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, Reason, Source, State
from ampspec.jobs.tracked import TrackedSpec
from ampspec.telemetry import EventType
from ampspec.telemetry.json_values import storable_text
from ampspec.telemetry.metrics import metrics_of, metrics_of_result
from ampspec.telemetry.steps.summary import StepSummary
from store import leases
from store.access.projects import QuotaReached
from store.clock import from_now, now
from store.files import run_images
from store.files.artifacts import StoredArtifact
from store.jobs import attempts, run_attempts
from store.jobs.jobs import Origin
from store.jobs.state_transitions import (
    add_event,
    change_state,
    change_state_from,
    end_attempt,
    state_event_data,
)
from store.leases import RUN_LEASE_S
from store.notifications import outbox
from store.tables import Attempt, Job, Project, RunThroughput
from store.telemetry import ingest
from store.telemetry.ingest import EncodedBlock, TelemetryEntry

MAX_RUNNING: Final = 100
"""Tracked runs of a project at one time; they use no slot, so `max_running` does not limit them."""
MAX_COLUMNS: Final = 256
"""Different columns of a run: each read of its steps returns all of them."""
QUEUE: Final = "tracked"
FIRST_ATTEMPT: Final = 1


class RunConflict(Exception):
    """The state of the run does not allow the request."""


class StepsNotInOrder(Exception):
    """A block begins before the end of the one before; `index` is its place in the upload."""

    def __init__(self, index: int, expected: int, received: int) -> None:
        super().__init__(f"entry {index}: expected steps from {expected}, received {received}")
        self.index, self.expected, self.received = index, expected, received


class TooManyColumns(Exception):
    """A block would give the run more columns than it may have; `index` is its place."""

    def __init__(self, index: int, count: int) -> None:
        super().__init__(
            f"entry {index}: expected at most {MAX_COLUMNS} different columns in a run, "
            f"received {count}"
        )
        self.index, self.count = index, count


@dataclass(frozen=True)
class NewAttempt:
    """An entry: the program goes on at `first_step`, and trains the stored steps after it again."""

    first_step: int


RunEntry = TelemetryEntry | NewAttempt


@dataclass(frozen=True)
class EntriesBatch:
    """Entries of a run, numbered from 0 over all of its uploads.

    `total_steps` is the expected number of steps, None if it is unknown or was sent before.
    """

    first_entry: int
    entries: Sequence[RunEntry]
    total_steps: int | None = None


def create(session: Session, spec: TrackedSpec, origin: Origin) -> Job:
    """Insert a running job without a worker. Raises QuotaReached."""
    _check_quota(session, origin.project)
    job = Job(
        source=Source.TRACKED,
        **vars(origin),
        name=spec.name,
        policy=spec.precision.policy,
        model=spec.model.kind,
        labels=spec.labels,
        spec=spec.model_dump(mode="json"),
        queue=QUEUE,
        max_attempts=1,
        state=State.RUNNING,
        attempt=FIRST_ATTEMPT,
        lease_expires_at=from_now(RUN_LEASE_S),
        started_at=now(),
        seq=1,
    )
    session.add(job)
    session.flush()
    session.refresh(job)
    session.add(Attempt(job_id=job.id, attempt=FIRST_ATTEMPT, worker_id=None, first_step=0))
    session.add(RunThroughput(job_id=job.id, histogram={}))
    session.flush()
    add_event(session, job, EventType.STATE, state_event_data(job))
    outbox.job_changed(session, job)
    return job


def append(session: Session, job_id: str, batch: EntriesBatch) -> Job:
    """Store the entries that were not stored before, and renew the lease.

    Entries that an earlier upload has stored are skipped, so that a repeated upload changes
    nothing, even if its entries are divided in another way.

    Returns:
        The updated job: `entries_written`, `state` and `requested` tell the program what is stored
        and whether it should stop.

    Raises:
        RunConflict: The run has ended, or entries before these are missing.
        StepsNotInOrder: A block does not follow the steps before; nothing is stored.
        TooManyColumns: The run has too many different columns; nothing is stored.
    """
    job = _lock_active(session, job_id)
    if batch.first_entry > job.entries_written and batch.entries:
        raise RunConflict(
            f"Expected entries from number {job.entries_written} on; received number "
            f"{batch.first_entry}. Send the entries in between first."
        )
    repeated = min(job.entries_written - batch.first_entry, len(batch.entries))
    entries = batch.entries[max(repeated, 0) :]
    if batch.total_steps is not None:
        job.total_steps = batch.total_steps
        session.flush()
    if not entries:
        leases.renew_lease(session, job_id, job.attempt, lease_s=RUN_LEASE_S)
    else:
        skipped_entries = len(batch.entries) - len(entries)
        _check_order(entries, job.step, skipped_entries)
        _add_columns(session, job, entries, skipped_entries)
        for new_attempt, part in _split_at_attempts(entries):
            _append_part(session, job, new_attempt, part)
    session.refresh(job)
    return job


def _split_at_attempts(
    entries: Sequence[RunEntry],
) -> Iterator[tuple[NewAttempt | None, list[TelemetryEntry]]]:
    """The entries of each attempt, with the entry that has begun it."""
    new_attempt: NewAttempt | None = None
    part: list[TelemetryEntry] = []
    for entry in entries:
        if not isinstance(entry, NewAttempt):
            part.append(entry)
            continue
        if new_attempt is not None or part:
            yield new_attempt, part
        new_attempt, part = entry, []
    yield new_attempt, part


def _append_part(
    session: Session, job: Job, new_attempt: NewAttempt | None, part: list[TelemetryEntry]
) -> None:
    if new_attempt is not None:
        # In the place of the entry, so that the numbers of the entries stay those of the program.
        part = [run_attempts.begin(session, job, new_attempt.first_step), *part]
    part = [
        run_images.admit(session, job.id, entry) if isinstance(entry, StoredArtifact) else entry
        for entry in part
    ]
    ingest.append(
        session,
        job.id,
        job.attempt,
        _with_totals(session, job, part),
        entries_written=job.entries_written,
        lease_s=RUN_LEASE_S,
    )
    session.refresh(job)


def resume(session: Session, job_id: str) -> Job:
    """Let a run that has failed or was cancelled go on; one that has not ended stays as it is.

    Its program may have been started again. `entries_written` and `step` of the job tell it what is
    stored.

    Raises:
        RunConflict: The run has succeeded, or is deleted.
        QuotaReached: The project has too many tracked runs at this time.
    """
    job = _lock(session, job_id)
    if State(job.state) in ACTIVE:
        leases.renew_lease(session, job_id, job.attempt, lease_s=RUN_LEASE_S)
        session.refresh(job)
        return job
    if job.state == State.SUCCEEDED:
        raise RunConflict(
            "Expected a run that has failed or was cancelled; this one has succeeded, which is "
            "final. Create another run."
        )
    _check_quota(session, job.project)
    continued = _continue(session, job_id)
    if continued is None:
        raise _ended(_lock(session, job_id))
    return continued


def finish(
    session: Session,
    job_id: str,
    state: State,
    *,
    entries: int,
    message: str | None,
    summary: Mapping[str, Any],
) -> Job:
    """End a run whose program has sent `entries` entries; a repeat returns the ended job.

    The job is `cancelled` if it was stopping.

    Raises:
        RunConflict: The run has ended otherwise, or not all entries are stored.
    """
    job = _lock(session, job_id)
    if State(job.state).is_terminal and not _is_lost(job):
        if job.state in (state, State.CANCELLED):
            return job
        raise _ended(job)
    job = _lock_active(session, job_id)
    if job.entries_written != entries:
        raise RunConflict(
            f"Expected the number of stored entries, {job.entries_written}; received {entries}. "
            "Send the missing entries first."
        )
    job_row = _end(session, job, state, message, summary)
    if job_row is None:
        raise _ended(job)
    return job_row


def _end(
    session: Session, job: Job, state: State, message: str | None, summary: Mapping[str, Any]
) -> Job | None:
    if state is State.SUCCEEDED:
        # A program reports some of the metrics; the others are those of the last evaluation.
        metrics = metrics_of(job.metrics) | metrics_of_result(summary)
        return attempts.mark_succeeded(session, job.id, job.attempt, dict(summary), metrics)
    if state is State.FAILED:
        text = message or "The program reported a failure without a message."
        return attempts.mark_failed(session, job.id, job.attempt, Reason.RUN_FAILED, text)
    if job.state != State.STOPPING:
        change_state(session, job.id, State.STOPPING)
    return end_attempt(
        session,
        job.id,
        job.attempt,
        State.CANCELLED,
        reason=Reason.USER_REQUEST,
        message=storable_text(message or "Cancelled on request; the program has stopped."),
    )


def _lock_active(session: Session, job_id: str) -> Job:
    """The locked run; a lost one is running again. Raises RunConflict if it has ended."""
    job: Job | None = _lock(session, job_id)
    if job is not None and _is_lost(job):
        job = _continue(session, job_id, Job.reason == Reason.RUN_LOST)
    if job is None or State(job.state) not in ACTIVE:
        raise _ended(_lock(session, job_id))
    return job


def _lock(session: Session, job_id: str) -> Job:
    job = session.get(Job, job_id, populate_existing=True, with_for_update=True)
    if job is None:
        raise RunConflict("The run has been deleted. It accepts no more data.")
    if job.purge_at is not None:
        raise RunConflict(
            "The run has been deleted, and is in the trash. It accepts no more data until it is "
            f"restored: ampctl job restore {job_id}."
        )
    return job


def _is_lost(job: Job) -> bool:
    return job.state == State.FAILED and job.reason == Reason.RUN_LOST


def _ended(job: Job) -> RunConflict:
    return RunConflict(f"The run has ended: its state is {job.state}. It accepts no more data.")


def _continue(session: Session, job_id: str, *conditions: ColumnElement[bool]) -> Job | None:
    """Mark a run that has failed or was cancelled as running again, in the same attempt."""
    job = change_state_from(
        session,
        job_id,
        {State.FAILED, State.CANCELLED},
        State.RUNNING,
        *conditions,
        requested=None,
        reason=None,
        message=None,
        failures=0,
        finished_at=None,
        lease_expires_at=from_now(RUN_LEASE_S),
    )
    session.execute(
        update(Attempt)
        .where(Attempt.job_id == job_id)
        .where(Attempt.attempt == select(Job.attempt).where(Job.id == job_id).scalar_subquery())
        .values(outcome=None, reason=None, message=None, finished_at=None)
        .execution_options(synchronize_session=False)
    )
    return job


def _check_order(entries: Sequence[RunEntry], step: int, skipped_entries: int) -> None:
    for index, entry in enumerate(entries, start=skipped_entries):
        if isinstance(entry, EncodedBlock):
            if entry.first_step < step:
                raise StepsNotInOrder(index, step, entry.first_step)
            step = entry.end_step
        elif isinstance(entry, NewAttempt):
            step = entry.first_step


def _add_columns(
    session: Session, job: Job, entries: Sequence[RunEntry], skipped_entries: int
) -> None:
    """Record the names of the columns. Raises TooManyColumns."""
    row = session.get_one(RunThroughput, job.id, populate_existing=True)
    columns = dict.fromkeys(row.columns or ())
    for index, entry in enumerate(entries, start=skipped_entries):
        if isinstance(entry, EncodedBlock):
            columns |= dict.fromkeys(entry.columns)
            if len(columns) > MAX_COLUMNS:
                raise TooManyColumns(index, len(columns))
    if len(columns) > len(row.columns or ()):
        row.columns = list(columns)
        session.flush()


def _with_totals(
    session: Session, job: Job, entries: Sequence[TelemetryEntry]
) -> Sequence[TelemetryEntry]:
    """Add the totals of the run so far to each block, and keep its histogram."""
    throughput = session.get_one(RunThroughput, job.id, populate_existing=True)
    summary = StepSummary.from_json(job.totals or {}, throughput.histogram)
    health = {"scale_health": (job.totals or {}).get("scale_health")}
    latest_values: Mapping[str, Any] = job.latest or {}  # of columns whose last cells are empty
    result: list[TelemetryEntry] = []
    for entry in entries:
        if isinstance(entry, EncodedBlock):
            summary.add(entry.count, entry.stats)
            latest_values = latest = {**latest_values, **entry.latest, "skipped": summary.skipped}
            totals = health | entry.totals | summary.to_json()
            result.append(replace(entry, latest=latest, totals=totals))
        else:
            result.append(entry)
    throughput.histogram = summary.throughput.to_json()
    session.flush()
    return result


def _check_quota(session: Session, project: str) -> None:
    # Locked, so that of two concurrent requests the second one counts the run of the first.
    session.scalar(
        select(Project.name).where(Project.name == project).with_for_update(key_share=True)
    )
    running = select(func.count()).where(
        Job.project == project, Job.source == Source.TRACKED, Job.state.in_(ACTIVE)
    )
    if (session.scalar(running) or 0) >= MAX_RUNNING:
        raise QuotaReached(
            f"The project {project!r} has reached its quota of {MAX_RUNNING} tracked runs. "
            "Try again when one of them has ended."
        )
