"""Admit requests to the threads of their group, and abandon reads whose client has left."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread
from anyio import CancelScope, CapacityLimiter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import Busy
from server.http.access.auth_middleware import client_network
from server.http.admission.fair_limiter import FairLimiter
from server.http.admission.request_groups import GROUPS, changes_nothing, group_of
from server.http.problem_responses import problem_response
from store import cancellation
from store.cancellation import Cancellation, Cancelled

log = logging.getLogger(__name__)

MAX_INTERRUPTS: Final = 2
"""Threads that tell the database to end abandoned queries."""


class AdmissionMiddleware:
    """ASGI middleware: a request takes a slot of its group until its response starts.

    A request that may be abandoned ends as soon as its client has left: while it waits for a slot,
    and while it reads the database. Its slot is free once its thread has ended. It needs the whole
    body in one message, as BodyLimit sends it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._limiters: Mapping[str, FairLimiter] = {
            group.name: FairLimiter(group.threads, group.per_owner) for group in GROUPS
        }
        self._interrupts = CapacityLimiter(MAX_INTERRUPTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request once its group has a free slot."""
        group = None
        if scope["type"] == "http":
            group = group_of(scope["method"], scope["path"])
        if group is None:
            await self.app(scope, receive, send)
            return
        slot = _Slot(self._limiters[group.name], _owner(scope), send)
        scope["state"]["slot"] = slot
        if changes_nothing(scope["method"], scope["path"]):
            await self._run_while_connected(scope, receive, slot)
        else:
            await self._run(scope, receive, slot)

    async def _run(self, scope: Scope, receive: Receive, slot: "_Slot") -> None:
        try:
            await slot.take()
        except Busy as error:
            await problem_response(error)(scope, receive, slot.send)
            return
        try:
            await self.app(scope, receive, slot.send)
        finally:
            slot.give_back()

    async def _run_while_connected(self, scope: Scope, receive: Receive, slot: "_Slot") -> None:
        client = _Client(await receive(), receive)
        work = Cancellation()
        context = cancellation.current.set(work)
        try:
            with CancelScope() as request:
                watcher = asyncio.create_task(self._abandon(client, work, slot, request))
                try:
                    await self._run(scope, client.receive, slot)
                except Cancelled:
                    pass  # nobody is there to be answered
                finally:
                    watcher.cancel()
        finally:
            cancellation.current.reset(context)

    async def _abandon(
        self, client: "_Client", work: Cancellation, slot: "_Slot", request: CancelScope
    ) -> None:
        """End the request when its client leaves; a response that has started ends by itself."""
        await client.watch()
        if slot.has_started:
            return
        request.cancel()  # it waits for its thread, which ends when its query does
        try:
            await anyio.to_thread.run_sync(work.cancel, limiter=self._interrupts)
        except Exception as error:
            log.warning("cannot end the query of a client that has left: %s", error)


@asynccontextmanager
async def without_slot(scope: Scope) -> AsyncIterator[None]:
    """Give the slot of a request back while it waits for what takes no thread. Raises Busy."""
    slot: _Slot | None = scope["state"].get("slot")
    if slot is not None:
        slot.give_back()
    yield
    if slot is not None:
        await slot.take()


class _Slot:
    """The slot of one request, which is free again when the response starts."""

    def __init__(self, limiter: FairLimiter, owner: str, send: Send) -> None:
        self._limiter, self._owner, self._send = limiter, owner, send
        self._is_held = False
        self.has_started = False

    async def take(self) -> None:
        await self._limiter.acquire(self._owner)
        self._is_held = True

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._limiter.release(self._owner)

    async def send(self, message: Message) -> None:
        self.has_started = True
        self.give_back()
        await self._send(message)


class _Client:
    """What a client sends: its request, then only that it has left."""

    def __init__(self, request: Message, receive: Receive) -> None:
        self._request: Message | None = request
        self._receive = receive
        self._has_left = anyio.Event()

    async def receive(self) -> Message:
        """The request once, then the disconnect when it happens."""
        request, self._request = self._request, None
        if request is not None:
            return request
        await self._has_left.wait()
        return {"type": "http.disconnect"}

    async def watch(self) -> None:
        """Wait until the client leaves."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._has_left.set()


def _owner(scope: Scope) -> str:
    """Whose request it is: a token's, or an address's before it has signed in."""
    principal = scope["state"].get("principal")
    return principal.token_id if principal is not None else client_network(scope)
