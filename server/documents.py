"""Read a request's JSON so that nothing in it can break the server or the database."""

import json
from collections.abc import Iterator
from typing import Any, Final, Never

from ampcore.spec import Problem, SpecInvalid
from ampcore.spec.problems import Location, pointer, shown
from server.errors import MalformedJson

MAX_DEPTH: Final = 32


def read_json(body: bytes) -> Any:
    """The document in a request body.

    Raises MalformedJson for what is no JSON (NaN and doubled keys included) or is nested
    too deeply, and SpecInvalid for text that no database can keep.
    """
    try:
        document = json.loads(
            body.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_unique
        )
    except RecursionError:
        raise MalformedJson(_too_deep()) from None
    except ValueError as error:
        raise MalformedJson(f"Expected a JSON document in UTF-8: {error}.{_hint(body)}") from None
    if problems := list(_unstorable(document)):
        raise SpecInvalid(problems)
    return document


def _refuse(word: str) -> Never:
    raise ValueError(f"{word} is no JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(twice)} stands in an object twice")
    return document


def _unstorable(document: Any) -> Iterator[Problem]:
    """A problem for each text with a NUL or half a character in it."""
    for location, value in _walk(document):
        for text in value if isinstance(value, dict) else [value]:
            if isinstance(text, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text):
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
