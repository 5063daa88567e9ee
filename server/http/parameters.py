"""The parameters of a request: mistakes in them in our words, and none that nobody knows."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError

from ampcore.series.jsonable import storable
from ampcore.spec import Problem
from ampcore.spec.problems import MOST_PROBLEMS, closest, pointer, shown


class RequestInvalid(Exception):
    """Parameters of a request have mistakes; `problems` holds every one of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__(" ".join(str(problem) for problem in problems))


async def refuse_unknown(request: Request) -> None:
    """Raises RequestInvalid for query parameters that the route does not read, or no text."""
    if request.scope["query_string"]:
        refuse_parameters(request, known=sorted(_names(request.scope["route"].dependant)))


def refuse_parameters(request: Request, *, known: Sequence[str]) -> None:
    """Raises RequestInvalid for query parameters that are not known, or no text."""
    if not request.scope["query_string"]:
        return
    given = request.query_params.multi_items()
    unknown = [name for name in request.query_params if name not in known]
    problems = [_unknown(name, known) for name in unknown[:MOST_PROBLEMS]]
    problems += [_unstorable(name, value) for name, value in given if not is_storable(value)]
    if problems:
        raise RequestInvalid(problems)


def is_storable(text: str) -> bool:
    """False for a text with a NUL or half a character in it, which no database takes."""
    return storable(text) == text


def from_validation_error(error: RequestValidationError) -> list[Problem]:
    """Every mistake that FastAPI found, in our words."""
    return [_problem(details) for details in error.errors()]


def _names(dependant: Any) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _names(inner)


def _unknown(name: str, known: Sequence[str]) -> Problem:
    place = pointer(("query", name))
    expected = f"one of the parameters {', '.join(known)}" if known else "no parameters"
    return Problem(place, "unknown_parameter", expected, shown(name), closest(name, known))


def _unstorable(name: str, value: str) -> Problem:
    place = pointer(("query", name))
    return Problem(place, "invalid_value", "text without NUL", json.dumps(value)[:80])


def _problem(details: Any) -> Problem:
    place = pointer(details["loc"])
    if details["type"] == "missing":
        return Problem(place, "missing", "a value", "nothing")
    expected = details["msg"].removeprefix("Input should be ")
    allowed = str(details.get("ctx", {}).get("expected", ""))
    words = allowed.replace(" or ", ", ").replace("'", "").split(", ")
    received = details["input"]
    return Problem(
        place,
        "invalid_value",
        expected[:1].lower() + expected[1:],
        shown(received),
        closest(received, words),
    )
