"""Requests that come so often that FastAPI's way to their routes would cost more than the answer.

Such a route is declared as any other, which describes it, with an endpoint that takes the request
and nothing else. In front of all routes stands a plain one of Starlette's that leads there, too.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match, Route
from starlette.types import Scope

from server.http.parameters import refuse_parameters

Endpoint = Callable[[Request], Awaitable[Response]]


class DirectRoute(Route):
    """A route without query parameters; its endpoint raises what the handlers of errors know."""

    def __init__(self, path: str, endpoint: Endpoint, methods: Collection[str]) -> None:
        async def answer(request: Request) -> Response:
            refuse_parameters(request, known=())
            return await endpoint(request)

        super().__init__(path, answer, include_in_schema=False)
        self.methods = set(methods)  # HEAD never comes so far

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As any route; and whoever counts requests learns which one it was."""
        match, found = super().matches(scope)
        return match, {**found, "route": self} if match is Match.FULL else found


def shortcuts(router: APIRouter, prefix: str, endpoints: Collection[Endpoint]) -> Iterator[Route]:
    """The direct routes to some endpoints of a router that is to be included with the prefix."""
    for route in router.routes:
        if isinstance(route, APIRoute) and route.endpoint in endpoints:
            yield DirectRoute(prefix + route.path, route.endpoint, route.methods or ())
