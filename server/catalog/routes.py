"""List the kinds of each part of a spec, and the precision policies."""

from collections.abc import Callable
from functools import partial
from typing import Final

from fastapi import Request, Response
from pydantic import BaseModel

from ampspec.api.catalog import ExtensibleKindList, PolicyList, SpecKindList
from server.catalog import catalog
from server.deps import DatabaseDep
from server.documentation.openapi import ETAG_RESPONSES
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from store import workers

router = api_router(tags=["catalog"])

LISTED: Final = {
    "models": "kinds of model",
    "layers": "kinds of layer for custom models",
    "data-kinds": "kinds of data",
    "losses": "losses",
    "metrics": "metrics",
    "optimizers": "kinds of optimizer",
}


def _add_route(
    name: str, description: str, response_model: type[BaseModel], respond: Callable[..., Response]
) -> None:
    """Add `GET /catalog/{name}`, which lists what the description says, and its former path."""
    for path, is_former in ((f"/catalog/{name}", False), (f"/{name}", True)):
        router.add_api_route(
            path,
            respond,
            name=path.strip("/").replace("-", "_").replace("/", "_"),
            summary=description.partition(",")[0],
            description=f"{description}.",
            response_model=response_model,
            responses=ETAG_RESPONSES,
            include_in_schema=not is_former,
        )


def _fixed_list(read: Callable[[], BaseModel]) -> Callable[..., Response]:
    """The handler of a list that is the same for every request."""

    def respond(request: Request) -> Response:
        return respond_unless_body_cached(request, ModelResponse(read()))

    return respond


def _list_with_packages(name: str) -> Callable[..., Response]:
    """The handler of a list to which the packages of online workers add entries."""

    def respond(request: Request, database: DatabaseDep) -> Response:
        with database.read() as session:
            reported = workers.online_packages(session)
        return respond_unless_body_cached(
            request, ModelResponse(catalog.with_packages(name, reported))
        )

    return respond


for _name, _listed in LISTED.items():
    _description = f"List the {_listed}, each with its JSON schema"
    if _name in catalog.EXTENSIBLE:
        _description += ", and what packages on workers add"
        _add_route(_name, _description, ExtensibleKindList, _list_with_packages(_name))
    else:
        _add_route(_name, _description, SpecKindList, _fixed_list(partial(catalog.kinds, _name)))
_add_route(
    "policies",
    "List the precision policies, each with its dtypes",
    PolicyList,
    _fixed_list(catalog.policies),
)
