"""Actions on an existing job: cancel, pause, resume, retry, delete, edit.

Each checks that the principal may see the job and that its state allows the action, changes it,
and writes an audit entry, in one transaction. Workers are notified after the commit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.job.jobs import ChangedJobs, Job
from ampspec.documents.text import join_names
from ampspec.jobs import TERMINAL, Source, State
from infra.notify import Notifier
from server.deps import (
    ActorDep,
    DatabaseDep,
    DispatcherDep,
    MemberDep,
    NotifierDep,
    missing_job,
    services_of,
)
from server.dispatch import Dispatcher, dispatch_jobs
from server.errors import Conflict
from server.http.access.principal import Principal
from server.http.responses import to_response
from server.idempotency import IdempotentRequestDep, respond_once
from server.row_models import job_from_row
from store import tables
from store.access import audit, projects
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.database import Database
from store.files import file_removals
from store.jobs import jobs, trash
from store.jobs.trash import TrashedJob
from store.listing.bulk_changes import BulkChange
from store.models import registered_models
from store.rows import insert_rows

T = TypeVar("T")
StoreChange = Callable[[Session, str], T | None]
"""A transition of the store; returns None if the state of the job does not allow it."""
BulkStoreChange = Callable[[Session], BulkChange]
"""A transition of several jobs."""


@dataclass(frozen=True)
class Action:
    """An action, and the states of a job that allow it."""

    name: str
    states: frozenset[State]


CANCEL: Final = Action("cancel", frozenset(State) - {State.SUCCEEDED, State.FAILED})
PAUSE: Final = Action("pause", frozenset(State) - TERMINAL - {State.STOPPING})
PROFILE: Final = Action("profile", frozenset({State.RUNNING}))
RESUME: Final = Action("resume", frozenset({State.PAUSED}))
RETRY: Final = Action("retry", frozenset({State.FAILED, State.CANCELLED}))
DELETE: Final = Action("delete", TERMINAL)
RESTORE: Final = Action("restore", TERMINAL)
EDIT: Final = Action("edit", frozenset(State))
CLONE: Final = Action("clone", frozenset(State))
EXTEND: Final = Action("extend", frozenset({State.SUCCEEDED}))
EXPLAIN: Final = Action("explain", frozenset(State))
WORKER_ACTIONS: Final = (PAUSE, PROFILE, RESUME, RETRY, CLONE, EXTEND, EXPLAIN)
"""Actions that need a worker, which a tracked run does not have."""
MAX_REFERENCES: Final = 5
"""Of the versions of models in a message."""
QUEUEING_ACTIONS: Final = (RESUME, RETRY)
"""Actions that put the job into the queue."""
ACTIONS: Final = (CANCEL, PAUSE, PROFILE, RESUME, RETRY, DELETE, EDIT, CLONE, EXTEND, EXPLAIN)


def get_visible_job(session: Session, job_id: str, principal: Principal) -> tables.Job:
    """The job, if the principal may see it. Raises NotFound."""
    job = jobs.get(session, job_id, project=principal.visible_project)
    if job is None:
        raise missing_job(session, principal, job_id)
    return job


@dataclass(frozen=True)
class JobActions:
    """Changes jobs for the principal of one request."""

    database: Database
    dispatcher: Dispatcher
    notifier: Notifier
    principal: Principal
    actor: Actor
    idempotent_request: IdempotentRequest | None
    trash_s: float
    """How long a deleted job can be restored, in seconds; 0: not at all."""

    def change(
        self,
        action: Action,
        job_id: str,
        change: StoreChange[tables.Job],
        *,
        later: State | None = None,
        **data: Any,
    ) -> Response:
        """Apply a change and return the changed job.

        Args:
            action: checked against the job's state, and named in the audit log.
            job_id: the job.
            change: the transition of the store; None from it is a Conflict.
            later: the state in which the job's worker has yet to act: the status is 202 then.
            data: details for the audit log.

        Raises:
            NotFound, Conflict, QuotaReached, KeyReused: nothing is changed.
        """
        changed: list[Job] = []

        def make(session: Session) -> StoredResponse:
            job = job_from_row(self._apply_change(session, action, job_id, change, data))
            changed.append(job)
            return StoredResponse(202 if job.state is later else 200, {}, job.model_dump_json())

        stored = respond_once(self.database, self.idempotent_request, make)
        self.notifier.notify(job_id)
        if action in QUEUEING_ACTIONS:
            dispatch_jobs(self.database, self.dispatcher, changed)
        return to_response(stored)

    def change_matching(self, action: Action, change: BulkStoreChange, **data: Any) -> Response:
        """Apply a change to all jobs that match, up to a number, and return which changed.

        Args:
            action: named in the audit log, in an entry for each job.
            change: the transition of the store.
            data: details for the audit log.

        Raises:
            KeyReused: nothing is changed.
        """
        changed_ids: list[str] = []

        def make(session: Session) -> StoredResponse:
            changed = change(session)
            entries = [
                audit.entry_values(
                    self.actor, f"job.{action.name}", job.id, project=job.project, **data
                )
                for job in changed.jobs
            ]
            if entries:
                insert_rows(session, tables.AuditEntry, *entries)
            changed_ids.extend(job.id for job in changed.jobs)
            body = ChangedJobs(ids=changed_ids, more=changed.has_more)
            return StoredResponse(200, {}, body.model_dump_json())

        stored = respond_once(self.database, self.idempotent_request, make)
        for job_id in changed_ids:
            self.notifier.notify(job_id)
        return to_response(stored)

    def remove(self, job_id: str, *, permanent: bool) -> Response:
        """Put a finished job into the trash; one that is there already is not found.

        Args:
            job_id: the job.
            permanent: delete it at once, also from the trash. Its files are deleted in the
                background, since a storage may hang.

        Raises:
            NotFound, Conflict, KeyReused: nothing is deleted.
        """
        keep_s = 0.0 if permanent else self.trash_s

        def make(session: Session) -> StoredResponse:
            if permanent and (trashed := self._find_in_trash(session, job_id)) is not None:
                jobs.delete_job(session, job_id)
                audit.record(
                    session,
                    self.actor,
                    "job.delete",
                    job_id,
                    project=trashed.project,
                    permanent=True,
                )
            else:
                change = partial(trash.move, keep_s=keep_s)
                self._apply_change(session, DELETE, job_id, change, deletion_details(keep_s))
            if keep_s <= 0:
                file_removals.schedule_in_background(session, job_id)
            return StoredResponse(204, {}, "")

        return to_response(respond_once(self.database, self.idempotent_request, make))

    def restore(self, job_id: str) -> Response:
        """Take a job out of the trash, and return it; one that is not deleted stays as it is.

        Args:
            job_id: the job.

        Raises:
            NotFound, KeyReused: nothing is changed.
        """

        def make(session: Session) -> StoredResponse:
            trashed = self._find_in_trash(session, job_id)
            row = trash.restore(session, job_id) if trashed is not None else None
            if row is not None:
                audit.record(session, self.actor, "job.restore", job_id, project=row.project)
            job = job_from_row(row or get_visible_job(session, job_id, self.principal))
            return StoredResponse(200, {}, job.model_dump_json())

        stored = respond_once(self.database, self.idempotent_request, make)
        self.notifier.notify(job_id)
        return to_response(stored)

    def _find_in_trash(self, session: Session, job_id: str) -> TrashedJob | None:
        trashed = trash.find(session, job_id)
        return trashed if trashed is not None and self.principal.sees(trashed.project) else None

    def _apply_change(
        self,
        session: Session,
        action: Action,
        job_id: str,
        change: StoreChange[T],
        data: dict[str, Any],
    ) -> T:
        job = get_visible_job(session, job_id, self.principal)
        check_has_worker(action, job)
        project = job.project
        if action in QUEUEING_ACTIONS:
            projects.check_queue_quota(session, project)
        changed = change(session, job_id)
        if not changed:
            raise refusal(session, action, get_visible_job(session, job_id, self.principal))
        audit.record(session, self.actor, f"job.{action.name}", job_id, project=project, **data)
        return changed


def deletion_details(keep_s: float) -> dict[str, Any]:
    """What the audit log says about a deletion: whether the job cannot be restored."""
    return {"permanent": True} if keep_s <= 0 else {}


def check_has_worker(action: Action, job: tables.Job) -> None:
    """Raise Conflict for an action that a tracked run does not have."""
    if job.source == Source.TRACKED and action in WORKER_ACTIONS:
        raise Conflict(
            f"Cannot {action.name} the job. Tracked runs have no worker; use cancel to ask the "
            "program to stop."
        )


def refusal(session: Session, action: Action, job: tables.Job) -> Conflict:
    """The error for an action that the job does not allow, with what it allows."""
    if action is DELETE and (user := jobs.unfinished_user(session, job.id)):
        return Conflict(
            f"Cannot {action.name} the job: job {user}, which has not ended, extends or explains "
            "it and may need its checkpoint."
        )
    if action is DELETE and (references := registered_models.references_to_job(session, job.id)):
        names = join_names(references, MAX_REFERENCES)
        return Conflict(
            f"Cannot {action.name} the job: {names} {'was' if len(references) == 1 else 'were'} "
            "made from it and would lose the files. Delete the version first: ampctl model delete "
            f"{references[0]}."
        )
    allowing = [str(state) for state in State if state in action.states]
    job_state = State(job.state) if job.state in list(State) else None
    left_out = WORKER_ACTIONS if job.source == Source.TRACKED else ()
    allowed = [
        candidate.name
        for candidate in ACTIONS
        if job_state in candidate.states and candidate not in left_out
    ]
    state = job.state if job_state else f"{job.state!r}, a state that this version does not know"
    return Conflict(
        f"Cannot {action.name} the job: expected the state {' or '.join(allowing)}, received "
        f"{state}. Possible actions in this state: {', '.join(allowed) or 'none'}."
    )


async def _job_actions(
    *,
    request: Request,
    database: DatabaseDep,
    dispatcher: DispatcherDep,
    notifier: NotifierDep,
    principal: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> JobActions:
    trash_s = services_of(request).trash_s
    return JobActions(database, dispatcher, notifier, principal, actor, idempotent_request, trash_s)


JobActionsDep = Annotated[JobActions, Depends(_job_actions)]
"""For principals that may change jobs; Forbidden otherwise."""
