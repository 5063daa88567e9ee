"""Read a request's JSON so that nothing in it can break the server or the database."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Never

from fastapi import Request

from ampcore.spec import Problem, SpecInvalid
from ampcore.spec.problems import MOST_PROBLEMS, Location, pointer, shown
from server.errors import MalformedJson, UnsupportedMediaType
from server.http.parameters import is_storable

MAX_DEPTH: Final = 32
JSON_KIND: Final = re.compile(r"\s*application/(?:[\w.!#$&^-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)


async def read_body(request: Request, *, empty: Any = None) -> Any:
    """The JSON document that a request carries; `empty`, if given, where it carries nothing.

    Raises UnsupportedMediaType, and what `read_json` does.
    """
    body = await request.body()
    if empty is not None and not body:
        return empty
    kind = request.headers.get("content-type")
    # Who says nothing of the kind sends JSON; what a browser's form sends is never taken for it.
    if body and kind is not None and not JSON_KIND.fullmatch(kind):
        raise UnsupportedMediaType(
            f"Expected a body of the type application/json, received {kind[:80]!r}.{_hint(body)}"
        )
    return read_json(body)


def read_json(body: bytes) -> Any:
    """The document in a request body.

    Raises MalformedJson for what is no JSON (NaN and doubled keys included) or is nested
    too deeply, and SpecInvalid for text that no database can keep.
    """
    try:
        document = json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except RecursionError:
        raise MalformedJson(_too_deep()) from None
    except ValueError as error:
        raise MalformedJson(f"Expected a JSON document in UTF-8: {error}.{_hint(body)}") from None
    if problems := list(islice(_unstorable(document), MOST_PROBLEMS)):
        raise SpecInvalid(problems)
    return document


def _refuse(word: str) -> Never:
    raise ValueError(f"{word} is no JSON number")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is too large a number")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(twice)} stands in an object twice")
    return document


def _unstorable(document: Any) -> Iterator[Problem]:
    """A problem for each text with a NUL or half a character in it."""
    for location, value in _walk(document):
        for text in value if isinstance(value, dict) else [value]:
            if isinstance(text, str) and not is_storable(text):
                expected = "text without NUL and without lone surrogates"
                received = json.dumps(text)[:80]
                yield Problem(pointer(location), "invalid_value", expected, received)


def _walk(document: Any) -> Iterator[tuple[Location, Any]]:
    """Every value with its place. Raises MalformedJson below MAX_DEPTH."""
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
    """For a body that is no object or list, and so perhaps YAML."""
    if not body.strip() or body.lstrip().startswith((b"{", b"[")):
        return ""
    return " The API takes JSON alone; a spec in YAML is for `ampctl submit`."


def _too_deep() -> str:
    return f"Expected a JSON document nested at most {MAX_DEPTH} deep, received a deeper one."
