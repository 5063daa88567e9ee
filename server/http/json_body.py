"""Read a JSON body strictly: no NaN, no duplicate keys, bounded depth, only storable text."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from typing import Any, Final, Never

from fastapi import Request, Response

from ampspec.documents.json_limits import MAX_DEPTH
from ampspec.documents.problems import MAX_PROBLEMS, Location, format_value, json_pointer
from ampspec.jobs import Problem, SpecValidationError
from server.errors import MalformedJson, RequestInvalid, UnsupportedMediaType
from server.http.parameters import is_storable
from server.http.router import CheckedRoute

JSON_MEDIA_TYPE: Final = re.compile(
    r"\s*application/(?:[\w.!#$&^-]+\+)?json\s*(?:;.*)?", re.IGNORECASE
)


async def read_body(request: Request, *, empty: Any = None) -> Any:
    """The JSON document in the body; `empty`, if given, for an empty body.

    Raises UnsupportedMediaType, and what `read_json` does.
    """
    body = await request.body()
    if empty is not None and not body:
        return empty
    kind = request.headers.get("content-type")
    # Without a Content-Type the body counts as JSON; the types of HTML forms are refused.
    if body and kind is not None and not JSON_MEDIA_TYPE.fullmatch(kind):
        raise UnsupportedMediaType(
            f"Expected a body of the type application/json, received {kind[:80]!r}.{_hint(body)}"
        )
    return read_json(body)


class JsonRoute(CheckedRoute):
    """A route whose body FastAPI reads, checked first by `read_body`.

    FastAPI alone accepts NaN, duplicate keys, any depth, and text that no database can store.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler; it raises RequestInvalid for a body that `read_body` rejects."""
        handle = super().get_route_handler()

        async def check_and_handle(request: Request) -> Response:
            if self.body_field is not None:
                await _check_body(request)
            return await handle(request)

        return check_and_handle


async def _check_body(request: Request) -> None:
    try:
        await read_body(request)
    except SpecValidationError as error:
        raise RequestInvalid(error.problems) from None


def read_json(body: bytes) -> Any:
    """The document in a request body.

    Raises MalformedJson for invalid JSON (also NaN and duplicate keys) and for a document that is
    nested too deeply, and SpecValidationError for text that no database can store.
    """
    try:
        document = json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
            object_pairs_hook=_refuse_duplicate_keys,
        )
    except RecursionError:
        raise MalformedJson(_too_deep()) from None
    except ValueError as error:
        raise MalformedJson(f"Expected a JSON document in UTF-8: {error}.{_hint(body)}") from None
    if problems := list(islice(_unstorable(document), MAX_PROBLEMS)):
        raise SpecValidationError(problems)
    return document


def _refuse_constant(word: str) -> Never:
    raise ValueError(f"{word} is not a JSON number")


def _parse_finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text} is too large")
    return number


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"duplicate key {format_value(twice)} in an object")
    return document


def _unstorable(document: Any) -> Iterator[Problem]:
    """A problem for each string with a NUL or a lone surrogate."""
    for location, value in _walk(document):
        for text in value if isinstance(value, dict) else [value]:
            if isinstance(text, str) and not is_storable(text):
                expected = "text without NUL and without lone surrogates"
                received = json.dumps(text)[:80]
                yield Problem(json_pointer(location), "invalid_value", expected, received)


def _walk(document: Any) -> Iterator[tuple[Location, Any]]:
    """Every value with its location. Raises MalformedJson below MAX_DEPTH."""
    waiting: list[tuple[Location, Any]] = [((), document)]
    while waiting:
        location, value = waiting.pop()
        if len(location) >= MAX_DEPTH and isinstance(value, dict | list):
            raise MalformedJson(_too_deep())
        yield location, value
        if isinstance(value, dict):
            waiting += [((*location, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*location, index), item) for index, item in enumerate(value)]


def _hint(body: bytes) -> str:
    """A hint for a body that is not an object or list, which may be YAML."""
    if not body.strip() or body.lstrip().startswith((b"{", b"[")):
        return ""
    return " The API accepts only JSON; `ampctl submit` also accepts YAML."


def _too_deep() -> str:
    return (
        f"Expected a JSON document nested at most {MAX_DEPTH} levels deep, received a deeper one."
    )
