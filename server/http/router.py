"""The router of a feature: paths below /api/v1, JSON responses, checked query parameters.

The application has all routes in one list. Routers that include others would be searched twice for
each request, once to choose a router and once to choose its route.
"""

from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from server.http.parameters import check_query_parameters, parameter_names_of
from server.http.responses import FiniteJSONResponse

API_PREFIX: Final = "/api/v1"


class CheckedRoute(APIRoute):
    """A route that refuses query parameters that it does not have.

    The check is no dependency of all routes, because FastAPI takes longer to resolve a dependency
    than the check takes.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler; it raises RequestInvalid for unknown and unstorable parameters."""
        handle = super().get_route_handler()
        parameter_names = parameter_names_of(self.dependant)

        async def check_and_handle(request: Request) -> Response:
            if request.scope["query_string"]:
                check_query_parameters(request, parameter_names)
            return await handle(request)

        return check_and_handle


def api_router(
    prefix: str = "", *, tags: Sequence[str], route_class: type[CheckedRoute] = CheckedRoute
) -> APIRouter:
    """A router for the routes of a feature.

    Args:
        prefix: The start of their paths, after /api/v1.
        tags: Their groups in the OpenAPI document.
        route_class: The class of its routes.

    Returns:
        The router; `server.app` adds its routes to the application.
    """
    return root_router(API_PREFIX + prefix, tags=tags, route_class=route_class)


def root_router(
    prefix: str = "", *, tags: Sequence[str], route_class: type[CheckedRoute] = CheckedRoute
) -> APIRouter:
    """A router like those of `api_router`, for paths that need not be below /api/v1.

    Args:
        prefix: The start of their paths.
        tags: Their groups in the OpenAPI document.
        route_class: The class of its routes.

    Returns:
        The router.
    """
    groups: list[str | Enum] = list(tags)
    return APIRouter(
        prefix=prefix,
        tags=groups,
        default_response_class=FiniteJSONResponse,
        route_class=route_class,
    )
