"""Write new jobs down: those that are posted at one moment in one transaction.

To each it is as if it had one of its own: what is wrong with one of them is told to that one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from ampcore.spec import JobSpec
from server.datasets import Datasets
from server.together import Together
from server.views import Job
from server.wake import Wake, wake_workers
from store import audit, jobs, projects
from store.audit import Actor
from store.database import Database
from store.idempotency import Answer, Keep, TakenOver
from store.projects import QuotaExceeded
from store.rows import write_down
from store.tables import AuditEntry

OF_ONE: Final = (QuotaExceeded, TakenOver, DataError, IntegrityError)
"""What a single job can be refused for once its transaction is under way."""


@dataclass(frozen=True)
class Draft:
    """A job to be queued: the document of its spec, whose it is, and what it is a clone of."""

    document: Any
    project: str
    cloned_from: str | None = None


@dataclass(frozen=True)
class Order:
    """A request for a job: who asks, by what the audit calls it, and how the answer is kept."""

    draft: Callable[[], Draft]
    action: str
    actor: Actor
    keep: Keep


@dataclass(frozen=True)
class _Ready:
    """An order whose job can be written down."""

    order: Order
    spec: JobSpec
    origin: jobs.Origin


@dataclass(frozen=True)
class _Taken:
    """A job that is written down, and what its request is answered."""

    job: Job
    answer: Answer

    @classmethod
    def of(cls, job: Job) -> "_Taken":
        location = {"Location": f"/api/v1/jobs/{job.id}"}
        return cls(job, Answer(201, location, job.model_dump_json()))


class Intake:
    """Takes in the jobs that are posted to one application."""

    def __init__(self, database: Database, datasets: Datasets, wake: Wake) -> None:
        self._database, self._datasets, self._wake = database, datasets, wake
        self._together = Together(self._take)

    async def take(self, order: Order) -> Answer:
        """Queue a job, once its row is committed ring for it.

        Raises what the draft raises, SpecInvalid, QuotaExceeded and TakenOver.
        """
        return await self._together.ask(order)

    def _take(self, orders: Sequence[Order]) -> Sequence[Answer | Exception]:
        checked = [self._check(order) for order in orders]
        ready = [one for one in checked if isinstance(one, _Ready)]
        taken = iter(self._write(ready))
        outcomes = [next(taken) if isinstance(one, _Ready) else one for one in checked]
        posted = [one.job for one in outcomes if isinstance(one, _Taken)]
        wake_workers(self._database, self._wake, posted)
        return [one.answer if isinstance(one, _Taken) else one for one in outcomes]

    def _check(self, order: Order) -> _Ready | Exception:
        try:
            draft = order.draft()
            spec = JobSpec.parse(draft.document)
            self._datasets.check(spec)
        except Exception as error:
            return error
        actor = order.actor
        origin = jobs.Origin(draft.project, actor.token_name, actor.request_id, draft.cloned_from)
        return _Ready(order, spec, origin)

    def _write(self, ready: Sequence[_Ready]) -> Sequence[_Taken | Exception]:
        if not ready:
            return []
        try:
            with self._database.write() as session:
                return _write_down(session, ready)
        except OF_ONE as error:
            if len(ready) == 1:
                return [error]
            return [outcome for one in ready for outcome in self._write([one])]


def _write_down(session: Session, ready: Sequence[_Ready]) -> Sequence[_Taken]:
    asked = Counter(one.origin.project for one in ready)
    for project in sorted(asked):  # every process in the same order: each waits for the one before
        projects.refuse_if_full(session, project, asked[project])
    rows = jobs.create_all(session, [(one.spec, one.origin) for one in ready])
    taken = [_Taken.of(Job.of(row)) for row in rows]
    orders = [one.order for one in ready]
    entries = [
        audit.entry(order.actor, order.action, one.job.id, project=one.job.project)
        for order, one in zip(orders, taken, strict=True)
    ]
    write_down(session, AuditEntry, *entries)
    for order, one in zip(orders, taken, strict=True):
        order.keep(session, one.answer)
    return taken
