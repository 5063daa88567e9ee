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
from server.http.responses import replayed
from server.together import Together
from server.views import Job
from server.wake import Wake, wake_workers
from store import audit, idempotency, jobs, projects
from store.audit import Actor
from store.database import Database
from store.idempotency import Answer, Keyed, KeyReused
from store.projects import QuotaExceeded
from store.rows import write_down
from store.tables import AuditEntry

OF_ONE: Final = (QuotaExceeded, KeyReused, DataError, IntegrityError)
"""What a single job can be refused for once its transaction is under way."""


@dataclass(frozen=True)
class Draft:
    """A job to be queued: the document of its spec, whose it is, and what it is a clone of."""

    document: Any
    project: str
    cloned_from: str | None = None


@dataclass(frozen=True)
class Order:
    """A request for a job: who asks, what the audit calls it, and its key if it has one."""

    draft: Callable[[], Draft]
    action: str
    actor: Actor
    keyed: Keyed | None = None


@dataclass(frozen=True)
class _Ready:
    """An order whose job can be written down."""

    order: Order
    spec: JobSpec
    origin: jobs.Origin


@dataclass(frozen=True)
class _Taken:
    """A job that is written down, and what its request is answered; None: it was so before."""

    job: Job | None
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

        Raises what the draft raises, SpecInvalid, QuotaExceeded and KeyReused.
        """
        return await self._together.ask(order)

    def _take(self, orders: Sequence[Order]) -> Sequence[Answer | Exception]:
        checked = [self._check(order) for order in orders]
        ready = [one for one in checked if isinstance(one, _Ready)]
        taken = iter(self._write(ready))
        outcomes = [next(taken) if isinstance(one, _Ready) else one for one in checked]
        posted = [one.job for one in outcomes if isinstance(one, _Taken) and one.job is not None]
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
        if len(ready) > 1 and _have_one_key(ready):  # the later ones are answered by the first
            return [outcome for one in ready for outcome in self._write([one])]
        try:
            with self._database.write() as session:
                return _write_down(session, ready)
        except OF_ONE as error:
            if len(ready) == 1:
                return [error]
            return [outcome for one in ready for outcome in self._write([one])]


def _have_one_key(ready: Sequence[_Ready]) -> bool:
    """Whether two of them have the same key."""
    keys = [(one.order.keyed.project, one.order.keyed.key) for one in ready if one.order.keyed]
    return len(set(keys)) < len(keys)


def _write_down(session: Session, ready: Sequence[_Ready]) -> Sequence[_Taken]:
    known = _claim(session, [one.order.keyed for one in ready if one.order.keyed])
    taken = iter(_create(session, [one for one in ready if one.order.keyed not in known]))
    answered = (known.get(one.order.keyed) if one.order.keyed else None for one in ready)
    return [next(taken) if answer is None else _Taken(None, answer) for answer in answered]


def _claim(session: Session, keys: Sequence[Keyed]) -> dict[Keyed | None, Answer]:
    """Take the keys for this transaction; the answers of those that were used before."""
    known: dict[Keyed | None, Answer] = {}
    # Every process in the same order: each waits for the one before.
    for keyed in sorted(keys, key=lambda keyed: (keyed.project, keyed.key)):
        if (answer := idempotency.claim(session, keyed)) is not None:
            known[keyed] = replayed(answer)
    return known


def _create(session: Session, ready: Sequence[_Ready]) -> Sequence[_Taken]:
    if not ready:
        return []
    asked = Counter(one.origin.project for one in ready)
    for project in sorted(asked):  # in the same order, again
        projects.refuse_if_full(session, project, asked[project])
    rows = jobs.create_all(session, [(one.spec, one.origin) for one in ready])
    made = [Job.of(row) for row in rows]
    orders = [one.order for one in ready]
    entries = [
        audit.entry(order.actor, order.action, job.id, project=job.project)
        for order, job in zip(orders, made, strict=True)
    ]
    write_down(session, AuditEntry, *entries)
    taken = [_Taken.of(job) for job in made]
    for order, one in zip(orders, taken, strict=True):
        if order.keyed is not None:
            idempotency.keep(session, order.keyed, one.answer)
    return taken
