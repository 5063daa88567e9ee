"""Requests of the programs that train tracked runs: create a run, upload telemetry, finish it."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Response
from sqlalchemy.orm import Session

from ampspec.api.runs import RunEnd, RunEntries, RunStatus
from ampspec.documents.problems import json_pointer
from ampspec.jobs import Problem, Source, State
from ampspec.jobs.tracked import TrackedSpec
from infra.notify import Notifier
from server.deps import ActorDep, DatabaseDep, MemberDep, NotifierDep
from server.errors import Conflict, RequestInvalid
from server.http.access.principal import Principal
from server.http.responses import to_response
from server.idempotency import IdempotentRequestDep, respond_once
from server.jobs.actions import get_visible_job
from server.row_models import job_from_row
from server.tracked_runs.run_entries import batch_of
from store import tables
from store.access import audit
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.database import Database
from store.jobs import run_attempts, tracked_runs
from store.jobs.jobs import Origin
from store.jobs.tracked_runs import (
    MAX_COLUMNS,
    EntriesBatch,
    RunEntry,
    StepsNotInOrder,
    TooManyColumns,
)


@dataclass(frozen=True)
class TrackedRuns:
    """Changes tracked runs for the principal of one request."""

    database: Database
    notifier: Notifier
    principal: Principal
    actor: Actor
    idempotent_request: IdempotentRequest | None

    def create(self, spec: TrackedSpec) -> Response:
        """Create a running job, and return it with status 201. Raises QuotaReached, KeyReused."""
        origin = Origin(self.principal.project, self.actor.token_name, self.actor.request_id)

        def make(session: Session) -> StoredResponse:
            row = tracked_runs.create(session, spec, origin)
            audit.record(session, self.actor, "run.create", row.id, project=row.project)
            location = {"Location": f"/api/v1/jobs/{row.id}"}
            return StoredResponse(201, location, job_from_row(row).model_dump_json())

        return to_response(respond_once(self.database, self.idempotent_request, make))

    def upload(self, job_id: str, body: RunEntries) -> RunStatus:
        """Store telemetry; the audit log has no entry for it, as for the telemetry of workers.

        Raises:
            NotFound, Conflict, RunConflict, RequestInvalid: Nothing is stored.
        """
        batch = batch_of(body)
        with self.database.write() as session:
            self._check_tracked(session, job_id)
            try:
                job = tracked_runs.append(session, job_id, batch)
            except StepsNotInOrder as error:
                raise _not_in_order(error) from None
            except TooManyColumns as error:
                raise _too_many_columns(error) from None
            status = _status(job)
        self.notifier.notify(job_id)
        return status

    def check(self, job_id: str) -> None:
        """Raise NotFound or Conflict unless this is a tracked run."""
        with self.database.read() as session:
            self._check_tracked(session, job_id)

    def append(self, job_id: str, entry_number: int, entry: RunEntry) -> RunStatus:
        """Store one entry. Raises NotFound, Conflict, RunConflict."""
        with self.database.write() as session:
            self._check_tracked(session, job_id)
            batch = EntriesBatch(entry_number, [entry])
            status = _status(tracked_runs.append(session, job_id, batch))
        self.notifier.notify(job_id)
        return status

    def resume(self, job_id: str) -> RunStatus:
        """Let an ended run go on. Raises NotFound, Conflict, RunConflict, QuotaReached."""
        with self.database.write() as session:
            job = self._check_tracked(session, job_id)
            project, has_ended = job.project, State(job.state).is_terminal
            resumed = tracked_runs.resume(session, job_id)
            status = _status(resumed, run_attempts.first_step(session, resumed))
            if has_ended:
                audit.record(session, self.actor, "run.resume", job_id, project=project)
        self.notifier.notify(job_id)
        return status

    def finish(self, job_id: str, end: RunEnd) -> Response:
        """End a run and return the job. Raises NotFound, Conflict, RunConflict, KeyReused."""
        summary = end.summary.model_dump(exclude_none=True)

        def make(session: Session) -> StoredResponse:
            project = self._check_tracked(session, job_id).project
            row = tracked_runs.finish(
                session,
                job_id,
                State(end.state),
                entries=end.entries,
                message=end.message,
                summary=summary,
            )
            audit.record(session, self.actor, "run.finish", job_id, project=project)
            return StoredResponse(200, {}, job_from_row(row).model_dump_json())

        stored = respond_once(self.database, self.idempotent_request, make)
        self.notifier.notify(job_id)
        return to_response(stored)

    def _check_tracked(self, session: Session, job_id: str) -> tables.Job:
        job = get_visible_job(session, job_id, self.principal)
        if job.source != Source.TRACKED:
            raise Conflict(f"Expected a tracked run; a worker runs the job {job_id!r}.")
        return job


def _status(job: tables.Job, first_step: int | None = None) -> RunStatus:
    return RunStatus(
        entries=job.entries_written,
        step=job.step,
        first_step=first_step,
        state=job.state,
        requested=job.requested,
    )


def _not_in_order(error: StepsNotInOrder) -> RequestInvalid:
    pointer = json_pointer(("body", "entries", error.index, "first_step"))
    expected = f"{error.expected} or more: earlier steps are stored"
    return RequestInvalid([Problem(pointer, "invalid_value", expected, str(error.received))])


def _too_many_columns(error: TooManyColumns) -> RequestInvalid:
    pointer = json_pointer(("body", "entries", error.index))
    expected = f"at most {MAX_COLUMNS} different columns in a run"
    return RequestInvalid([Problem(pointer, "invalid_value", expected, str(error.count))])


async def _tracked_runs(
    *,
    database: DatabaseDep,
    notifier: NotifierDep,
    principal: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> TrackedRuns:
    return TrackedRuns(database, notifier, principal, actor, idempotent_request)


TrackedRunsDep = Annotated[TrackedRuns, Depends(_tracked_runs)]
"""For principals that may change jobs; Forbidden otherwise."""
