"""Queue a job for the person who asks: within the quota, noted, told to the workers, and once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from ampcore.spec import JobSpec
from server.access.principal import Principal
from server.datasets import Datasets
from server.deps import actor, member_of, services_of
from server.jobs.idempotency import Keep, answer_once, keyed_of
from server.views import Job
from server.wake import Wake, wake_workers
from store import audit, jobs, projects
from store.audit import Actor
from store.database import Database
from store.idempotency import Answer, Keyed


@dataclass(frozen=True)
class Draft:
    """A job to be queued: the document of its spec, whose it is, and what it is a clone of."""

    document: Any
    project: str
    cloned_from: str | None = None


@dataclass(frozen=True)
class Posting:
    """Queues jobs for the person who asks."""

    database: Database
    datasets: Datasets
    wake: Wake
    principal: Principal
    actor: Actor
    keyed: Keyed | None

    def post(self, action: str, draft: Callable[[], Draft]) -> Response:
        """201 for the job of a draft, which is made only when the request is a new one.

        Raises SpecInvalid, QuotaExceeded, KeyReused and InFlight.
        """
        posted: list[Job] = []
        answer = answer_once(
            self.database, self.keyed, lambda keep: self._create(action, draft(), keep, posted)
        )
        wake_workers(self.database, self.wake, posted)
        return Response(answer.body, answer.status, answer.headers, "application/json")

    def _create(self, action: str, draft: Draft, keep: Keep, posted: list[Job]) -> Answer:
        spec = JobSpec.parse(draft.document)
        self.datasets.check(spec)
        with self.database.write() as session:
            projects.refuse_if_full(session, draft.project)
            job = Job.of(jobs.create(session, spec, self._origin(draft)))
            audit.note(session, self.actor, action, job.id, project=draft.project)
            location = {"Location": f"/api/v1/jobs/{job.id}"}
            answer = Answer(201, location, job.model_dump_json())
            keep(session, answer)
        posted.append(job)
        return answer

    def _origin(self, draft: Draft) -> jobs.Origin:
        name, request_id = self.principal.token_name, self.actor.request_id
        return jobs.Origin(draft.project, name, request_id, draft.cloned_from)


async def posting_of(request: Request) -> Posting:
    """Queues jobs for whoever sent the request. Raises Forbidden and RequestInvalid."""
    principal, services = member_of(request), services_of(request)
    keyed = await keyed_of(request, principal.project)
    return Posting(
        services.database,
        services.datasets,
        services.wake,
        principal,
        actor(request, principal),
        keyed,
    )


PostingDep = Annotated[Posting, Depends(posting_of)]
"""Only for who may change jobs."""
