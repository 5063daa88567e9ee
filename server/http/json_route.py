"""Routes whose bodies FastAPI reads: looked through first, with the care that a job's spec gets."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from ampcore.spec import SpecInvalid
from server.http.documents import read_body
from server.http.parameters import RequestInvalid


class JsonRoute(APIRoute):
    """FastAPI by itself takes NaN, doubled keys, any depth, and text that no database keeps."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route, behind a look at the body."""
        handle = super().get_route_handler()

        async def look_first(request: Request) -> Response:
            if self.body_field is not None:
                await _look(request)
            return await handle(request)

        return look_first


async def _look(request: Request) -> None:
    try:
        await read_body(request)
    except SpecInvalid as error:
        raise RequestInvalid(error.problems) from None
