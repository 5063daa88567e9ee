"""What people do with a job that is there: look whether it is theirs, change it, note who did.

The workers are woken after the commit, and only for a job that waits then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Response
from sqlalchemy.orm import Session

from ampcore.spec import TERMINAL, State
from server.access.principal import Principal
from server.deps import ActorDep, BellDep, DatabaseDep, MemberDep, StorageDep, WakeDep, no_job
from server.errors import Conflict
from server.http.responses import response_of
from server.jobs.files import remove_files
from server.jobs.idempotency import KeyedDep, answer_once
from server.views import Job
from server.wake import Wake, wake_workers
from service.bells import Bell
from service.storage import Storage
from store import audit, file_removals, jobs, projects, tables
from store.audit import Actor
from store.database import Database
from store.file_removals import Removal
from store.idempotency import Answer, Keyed

T = TypeVar("T")
Change = Callable[[Session, str], T | None]
"""What the store does with the job of an id; nothing, where it is not in the state for it."""


@dataclass(frozen=True)
class Action:
    """Something that the state of a job allows or not."""

    name: str
    states: frozenset[State]
    """Those that allow it."""


CANCEL: Final = Action("cancel", frozenset(State) - {State.SUCCEEDED, State.FAILED})
PAUSE: Final = Action("pause", frozenset(State) - TERMINAL - {State.STOPPING})
RESUME: Final = Action("resume", frozenset({State.PAUSED}))
RETRY: Final = Action("retry", frozenset({State.FAILED, State.CANCELLED}))
DELETE: Final = Action("delete", TERMINAL)
EDIT: Final = Action("edit", frozenset(State))
CLONE: Final = Action("clone", frozenset(State))
QUEUES: Final = (RESUME, RETRY)
"""These put the job into the queue."""
ACTIONS: Final = (CANCEL, PAUSE, RESUME, RETRY, DELETE, EDIT, CLONE)


def found(session: Session, job_id: str, principal: Principal) -> tables.Job:
    """The job, if the principal sees it. Raises NotFound."""
    job = jobs.get(session, job_id, project=principal.sees)
    if job is None:
        raise no_job(job_id)
    return job


@dataclass(frozen=True)
class Steering:
    """Changes jobs for the person who asks."""

    database: Database
    wake: Wake
    bell: Bell
    storage: Storage
    principal: Principal
    actor: Actor
    keyed: Keyed | None

    def change(
        self,
        action: Action,
        job_id: str,
        change: Change[tables.Job],
        *,
        later: State | None = None,
        **data: Any,
    ) -> Response:
        """The job as the change has made it; 202 where its worker brings it out of `later`.

        `data` goes into the audit. Raises NotFound, QuotaExceeded, KeyReused, and Conflict where
        the change returns None.
        """
        changed: list[Job] = []

        def make(session: Session) -> Answer:
            job = Job.of(self._carry_out(session, action, job_id, change, data))
            changed.append(job)
            return Answer(202 if job.state is later else 200, {}, job.model_dump_json())

        answer = answer_once(self.database, self.keyed, make)
        self.bell.ring(job_id)
        if action in QUEUES:
            wake_workers(self.database, self.wake, changed)
        return response_of(answer)

    def remove(self, job_id: str) -> Response:
        """Delete a job that has ended, and then its files. Raises NotFound, Conflict, KeyReused.

        Files that the storage does not delete now are deleted later, also after a crash.
        """
        removals: list[Removal] = []

        def make(session: Session) -> Answer:
            self._carry_out(session, DELETE, job_id, jobs.remove, {})
            removals.extend(file_removals.note(session, job_id))
            return Answer(204, {}, "")

        answer = answer_once(self.database, self.keyed, make)
        remove_files(self.database, self.storage, removals)
        return response_of(answer)

    def _carry_out(
        self, session: Session, action: Action, job_id: str, change: Change[T], data: dict[str, Any]
    ) -> T:
        project = found(session, job_id, self.principal).project
        if action in QUEUES:
            projects.refuse_if_full(session, project)
        changed = change(session, job_id)
        if not changed:
            raise _refusal(action, found(session, job_id, self.principal))
        audit.note(session, self.actor, f"job.{action.name}", job_id, project=project, **data)
        return changed


def _refusal(action: Action, job: tables.Job) -> Conflict:
    allowing = [str(other) for other in State if other in action.states]
    known = State(job.state) if job.state in list(State) else None
    allowed = [other.name for other in ACTIONS if known in other.states]
    state = job.state if known else f"{job.state!r}, a state that this version does not know"
    return Conflict(
        f"Expected a job that is {' or '.join(allowing)} to {action.name}, "
        f"received one that is {state}, which allows: {', '.join(allowed) or 'nothing'}."
    )


async def _steering(
    *,
    database: DatabaseDep,
    wake: WakeDep,
    bell: BellDep,
    storage: StorageDep,
    principal: MemberDep,
    actor: ActorDep,
    keyed: KeyedDep,
) -> Steering:
    return Steering(database, wake, bell, storage, principal, actor, keyed)


SteeringDep = Annotated[Steering, Depends(_steering)]
"""Only for who may change jobs."""
