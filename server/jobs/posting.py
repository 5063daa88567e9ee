"""Post a job as the person who asks, and once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from server.access.principal import Principal
from server.deps import actor, member_of, services_of
from server.intake import Draft, Intake, Order
from server.jobs.idempotency import answer_once, keyed_of
from store.audit import Actor
from store.database import Database
from store.idempotency import Answer, Keep, Keyed


@dataclass(frozen=True)
class Posting:
    """Posts jobs for the person who asks."""

    database: Database
    intake: Intake
    principal: Principal
    actor: Actor
    keyed: Keyed | None

    async def post(self, action: str, draft: Callable[[], Draft]) -> Response:
        """201 for the job of a draft, which is made only when the request is a new one.

        Raises what the draft raises, SpecInvalid, QuotaExceeded, KeyReused and InFlight.
        """

        async def take(keep: Keep) -> Answer:
            return await self.intake.take(Order(draft, action, self.actor, keep))

        answer = await answer_once(self.database, self.keyed, take)
        return Response(answer.body, answer.status, answer.headers, "application/json")


async def posting_of(request: Request) -> Posting:
    """Posts jobs for whoever sent the request. Raises Forbidden and RequestInvalid."""
    principal, services = member_of(request), services_of(request)
    keyed = await keyed_of(request, principal.project)
    by = actor(request, principal)
    return Posting(services.database, services.intake, principal, by, keyed)


PostingDep = Annotated[Posting, Depends(posting_of)]
"""Only for who may change jobs."""
