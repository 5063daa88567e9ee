"""Post a job as the person who asks, and once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from server.access.principal import Principal
from server.deps import actor, member_of, services_of
from server.http.responses import replayed, response_of
from server.intake import Draft, Intake, Order
from server.jobs.idempotency import keyed_of
from store import idempotency
from store.audit import Actor
from store.database import Database
from store.idempotency import Answer, Keyed


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

        Raises what the draft raises, SpecInvalid, QuotaExceeded and KeyReused.
        """
        known = await run_in_threadpool(self._find, self.keyed) if self.keyed else None
        if known is not None:
            return response_of(replayed(known))
        order = Order(draft, action, self.actor, self.keyed)
        return response_of(await self.intake.take(order))

    def _find(self, keyed: Keyed) -> Answer | None:
        with self.database.read() as session:
            return idempotency.find(session, keyed)


async def posting_of(request: Request) -> Posting:
    """Posts jobs for whoever sent the request. Raises Forbidden and RequestInvalid."""
    principal, services = member_of(request), services_of(request)
    keyed = await keyed_of(request)
    by = actor(request, principal)
    return Posting(services.database, services.intake, principal, by, keyed)


PostingDep = Annotated[Posting, Depends(posting_of)]
"""Only for who may change jobs."""
