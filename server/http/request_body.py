"""Request bodies as dependencies: read strictly, and described in the OpenAPI document.

FastAPI's own reading of bodies accepts NaN, duplicate keys and any depth, and its errors have other
pointers (`server.http.json_body`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from ampspec.documents.problems import from_pydantic
from server.errors import RequestInvalid
from server.http.json_body import read_body

Value = TypeVar("Value")
Model = TypeVar("Model", bound=BaseModel)
REF: Final = "#/components/schemas/{model}"


class RequestBody(Generic[Value]):
    """A dependency that reads the JSON body of a request.

    Args:
        parse: Turns the document into what the route gets. Raises RequestInvalid.
        schema: Of the document, for OpenAPI.
        description: For OpenAPI.
        examples: For OpenAPI, by name.
        required: False: an empty body counts as {}.
    """

    def __init__(
        self,
        parse: Callable[[Any], Value],
        schema: Mapping[str, Any],
        description: str,
        *,
        examples: Mapping[str, Any] | None = None,
        required: bool = True,
    ) -> None:
        self._parse = parse
        self._empty: Any = None if required else {}
        content = {"schema": schema} | ({"examples": examples} if examples else {})
        self.openapi = {
            "required": required,
            "description": description,
            "content": {"application/json": content},
        }

    async def __call__(self, request: Request) -> Value:
        """What the route gets."""
        return self._parse(await read_body(request, empty=self._empty))


def body_of(model: type[Model], description: str, *, required: bool = True) -> RequestBody[Model]:
    """A body that a model describes and parses; RequestInvalid lists every mistake."""

    def parse(document: Any) -> Model:
        try:
            return model.model_validate(document)
        except ValidationError as error:
            raise RequestInvalid(from_pydantic(error, model)) from None

    schema = {"$ref": REF.format(model=model.__name__)}
    return RequestBody(parse, schema, description, required=required)


def document_body(
    schema: Mapping[str, Any], description: str, *, examples: Mapping[str, Any] | None = None
) -> RequestBody[Any]:
    """A body that the route gets as it is: what parses it has errors of its own."""
    return RequestBody(lambda document: document, schema, description, examples=examples)


def bodies_of(dependant: Any) -> Iterator[RequestBody[Any]]:
    """The bodies that a route reads, directly or through another dependency."""
    for dependency in dependant.dependencies:
        if isinstance(dependency.call, RequestBody):
            yield dependency.call
        yield from bodies_of(dependency)
