"""Check query parameters: unknown ones and unstorable text are errors, in our own messages."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError

from ampspec.documents.problems import MAX_PROBLEMS, closest_match, format_value, json_pointer
from ampspec.jobs import Problem
from ampspec.telemetry.json_values import storable_text
from server.errors import RequestInvalid


def check_query_parameters(request: Request, parameter_names: Sequence[str]) -> None:
    """Raise RequestInvalid for query parameters that the route lacks, or unstorable text.

    Args:
        request: The request.
        parameter_names: The names of all query parameters of the route, sorted.

    Raises:
        RequestInvalid: Lists the parameters.
    """
    parameters = request.query_params.multi_items()
    unknown = [name for name in request.query_params if name not in parameter_names]
    problems = [_unknown(name, parameter_names) for name in unknown[:MAX_PROBLEMS]]
    problems += [_unstorable(name, value) for name, value in parameters if not is_storable(value)]
    if problems:
        raise RequestInvalid(problems)


def parameter_names_of(dependant: Any) -> list[str]:
    """The names of the query parameters of a route and its dependencies, sorted."""
    return sorted(_names(dependant))


def is_storable(text: str) -> bool:
    """False for text with a NUL or a lone surrogate, which no database stores."""
    return storable_text(text) == text


def parse_utc(text: str) -> datetime:
    """A time with a zone, in UTC. Raises ValueError, also for one before year 1 or after 9999."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"expected a time with a zone, received {text}")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"expected a time in the years 1 to 9999, received {text}") from error


def from_validation_error(error: RequestValidationError) -> list[Problem]:
    """FastAPI's validation errors as our problems."""
    return [_problem(details) for details in error.errors()]


def _names(dependant: Any) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _names(inner)


def _unknown(name: str, parameter_names: Sequence[str]) -> Problem:
    location = json_pointer(("query", name))
    expected = (
        f"one of the parameters {', '.join(parameter_names)}"
        if parameter_names
        else "no parameters"
    )
    return Problem(
        location,
        "unknown_parameter",
        expected,
        format_value(name),
        closest_match(name, parameter_names),
    )


def _unstorable(name: str, value: str) -> Problem:
    location = json_pointer(("query", name))
    return Problem(location, "invalid_value", "text without NUL", json.dumps(value)[:80])


def _problem(details: Any) -> Problem:
    location = json_pointer(details["loc"])
    if details["type"] == "missing":
        return Problem(location, "missing", "a value", "nothing")
    if details["type"] == "two_names":
        return Problem(location, "invalid_value", details["msg"], "both")
    expected = details["msg"].removeprefix("Input should be ")
    allowed = str(details.get("ctx", {}).get("expected", ""))
    words = allowed.replace(" or ", ", ").replace("'", "").split(", ")
    received = details["input"]
    return Problem(
        location,
        "invalid_value",
        expected[:1].lower() + expected[1:],
        format_value(received),
        closest_match(received, words),
    )
