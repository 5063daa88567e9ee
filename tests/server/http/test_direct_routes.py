"""Routes that bypass FastAPI's router do not bypass its dependencies."""

import anyio
import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request, Response

from server.app import ROUTE_CHECKS
from server.errors import Forbidden
from server.http.direct_routes import DirectRoutes, direct_routes

router = APIRouter()


@router.get("/things/{name}")
async def read(request: Request) -> Response:
    return Response(request.path_params["name"])


async def refuse_secret(request: Request) -> None:
    if request.path_params["name"] == "secret":
        raise Forbidden("Not this one.")


@pytest.mark.parametrize(("name", "status"), [("open", 200), ("secret", 403)])
def test_a_check_of_all_routers_is_called_for_a_direct_route(name, status):
    app = DirectRoutes(FastAPI(), direct_routes(router, "", [read]), [refuse_secret])

    async def ask():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(f"/things/{name}")

    assert anyio.run(ask).status_code == status


@pytest.mark.parametrize("path", ["jobs/0123456789ab", "jobs", "jobs/0123456789ab/events"])
def test_the_checks_of_the_application_hold_for_every_route(api, path):
    method = "POST" if path == "jobs" else "GET"
    answer = api.client.request(
        method, f"/api/v1/{path}?made_up=1", json={} if path == "jobs" else None
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "unknown_parameter"
    assert len(ROUTE_CHECKS) == 1
