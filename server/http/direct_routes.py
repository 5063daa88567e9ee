"""Direct routes: call the endpoints of the most frequent requests without FastAPI's overhead.

Such a route is declared like any other, which documents it, but its endpoint takes only the
request. A middleware in front of FastAPI matches the path and calls the endpoint.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import EXPECTED_ERRORS
from server.http.problem_responses import problem_response

Endpoint = Callable[[Request], Awaitable[Response]]
Check = Callable[[Request], Awaitable[None]]


class DirectRoutes:
    """ASGI middleware: calls the endpoint of a direct route, else the application.

    `checks` are the dependencies of all routers, which take only the request: they are called
    before the endpoint, as FastAPI does it.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[Route], checks: Sequence[Check]) -> None:
        self.app = app
        self._routes, self._checks = routes, checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request here, or pass it on."""
        if scope["type"] == "http":
            for route in self._routes:
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found, route=route)
                    response = await self._answer(route, Request(scope, receive, send))
                    await response(scope, receive, send)
                    return
        await self.app(scope, receive, send)

    async def _answer(self, route: Route, request: Request) -> Response:
        try:
            for check in self._checks:
                await check(request)
            response: Response = await route.endpoint(request)
        except EXPECTED_ERRORS as error:
            return problem_response(error)
        return response


def direct_routes(router: APIRouter, prefix: str, endpoints: Collection[Endpoint]) -> list[Route]:
    """The direct routes for these endpoints of a router that is included with `prefix`."""
    return [
        Route(prefix + route.path, route.endpoint, methods=route.methods)
        for route in router.routes
        if isinstance(route, APIRoute) and route.endpoint in endpoints
    ]
