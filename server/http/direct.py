"""Requests that come so often that FastAPI's way to their routes would cost more than the answer.

Such a route is declared as any other, which describes it, with an endpoint that takes the request
and nothing else. In front of FastAPI's part of the application stands a middleware that leads
there, too.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import EXPECTED, answer
from server.http.parameters import refuse_parameters

Endpoint = Callable[[Request], Awaitable[Response]]


class DirectRoutes:
    """ASGI middleware: calls the endpoint of a direct route; what is none goes on."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self.app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request here, or let it pass."""
        if scope["type"] == "http":
            for route in self._routes:
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found, route=route)
                    response = await _answer(route, Request(scope, receive, send))
                    await response(scope, receive, send)
                    return
        await self.app(scope, receive, send)


async def _answer(route: Route, request: Request) -> Response:
    try:
        refuse_parameters(request, known=())
        response: Response = await route.endpoint(request)
    except EXPECTED as error:
        return answer(error)
    return response


def direct_routes(router: APIRouter, prefix: str, endpoints: Collection[Endpoint]) -> list[Route]:
    """Those of some endpoints of a router that is to be included with the prefix."""
    return [
        Route(prefix + route.path, route.endpoint, methods=route.methods)
        for route in router.routes
        if isinstance(route, APIRoute) and route.endpoint in endpoints
    ]
