"""What can go wrong at the edge, and the one table of how HTTP says it (RFC 9457)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from ampcore.spec import Problem, SpecInvalid
from server.methods import allowed
from server.parameters import RequestInvalid, from_validation_error
from server.responses import FiniteJSONResponse

log = logging.getLogger(__name__)


class ServerError(Exception):
    """An answer that is no success; the message is for the person who asked."""


class MalformedJson(ServerError):
    """The body is not a JSON document."""


class Unauthorized(ServerError):
    """No token, or not one of ours; `challenges` are the WWW-Authenticate headers."""

    def __init__(self, message: str, challenges: Sequence[str]) -> None:
        super().__init__(message)
        self.challenges = challenges


class NotFound(ServerError):
    """There is no such thing."""


class MethodNotAllowed(ServerError):
    """The path takes other methods than this one."""

    def __init__(self, methods: Sequence[str]) -> None:
        super().__init__(f"Expected one of the methods of this path: {', '.join(methods)}.")
        self.methods = methods


class Conflict(ServerError):
    """The thing is in no state for that."""


class PayloadTooLarge(ServerError):
    """The body is longer than the server reads."""


class Unavailable(ServerError):
    """A part that the server needs does not answer; `problems` say which."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = problems


@dataclass(frozen=True)
class Kind:
    """How HTTP says an error: the status, and a code for programs."""

    status: int
    code: str
    title: str


UNAVAILABLE: Final = Kind(503, "unavailable", "A part of the service does not answer")
INVALID_REQUEST: Final = Kind(422, "invalid_request", "The request has mistakes")
INTERNAL_ERROR: Final = Kind(500, "internal_error", "The server failed")

KINDS: Final[dict[type[Exception], Kind]] = {
    MalformedJson: Kind(400, "malformed_json", "The body is not a JSON document"),
    Unauthorized: Kind(401, "unauthorized", "A valid token is needed"),
    NotFound: Kind(404, "not_found", "There is no such thing"),
    MethodNotAllowed: Kind(405, "method_not_allowed", "The path does not take this method"),
    Conflict: Kind(409, "conflict", "The present state does not allow that"),
    PayloadTooLarge: Kind(413, "payload_too_large", "The body is too long"),
    SpecInvalid: Kind(422, "invalid_spec", "The job spec has mistakes"),
    RequestInvalid: INVALID_REQUEST,
    RequestValidationError: INVALID_REQUEST,
    Unavailable: UNAVAILABLE,
    OperationalError: UNAVAILABLE,
    InterfaceError: UNAVAILABLE,
    ProgrammingError: UNAVAILABLE,
    PoolTimeout: UNAVAILABLE,
    Exception: INTERNAL_ERROR,
}
"""The table: domain error to status and code."""

# A ProgrammingError of ours would be a bug; tables that are not there yet are the usual cause.
DATABASE_ERRORS: Final = (OperationalError, InterfaceError, ProgrammingError, PoolTimeout)


def answer(error: Exception) -> Response:
    """The problem+json for an error; what it says never shows the inside of the server."""
    kind = _kind(error)
    body: dict[str, Any] = {
        "type": f"urn:ampcore:problem:{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": _detail(error, kind),
        "code": kind.code,
    }
    if problems := _problems(error):
        body["errors"] = [problem.to_json() for problem in problems]
    response = FiniteJSONResponse(body, kind.status, media_type="application/problem+json")
    _add_headers(response, error, kind)
    return response


def install(app: FastAPI) -> None:
    """Answer every error of the application from the table."""

    async def handle(request: Request, error: Exception) -> Response:
        return answer(_from_router(request, error))

    for error in (*KINDS, HTTPException):
        app.add_exception_handler(error, handle)


def _from_router(request: Request, error: Exception) -> Exception:
    """What the router itself answers, in our words; any other error as it is."""
    match error:
        case HTTPException(status_code=404):
            slash = " with a slash at its end" if request.url.path[1:].endswith("/") else ""
            return NotFound(f"Nothing is at this path{slash}; /api/v1/docs lists the paths.")
        case HTTPException(status_code=405):
            return MethodNotAllowed(allowed(request))
    return error


def _kind(error: Exception) -> Kind:
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase
        return Kind(error.status_code, phrase.lower().replace(" ", "_"), phrase)
    return next(KINDS[parent] for parent in type(error).__mro__ if parent in KINDS)


def _detail(error: Exception, kind: Kind) -> str:
    if isinstance(error, DATABASE_ERRORS):
        log.error("the database does not answer: %s", error)
        return "The database does not answer; try again soon."
    if isinstance(error, HTTPException):
        return str(error.detail)
    if isinstance(error, RequestValidationError):
        return str(RequestInvalid(from_validation_error(error)))
    if kind is INTERNAL_ERROR:
        return "An error that nobody expected; the server's log tells more."
    return str(error)


def _problems(error: Exception) -> Sequence[Problem]:
    if isinstance(error, RequestValidationError):
        return from_validation_error(error)
    return getattr(error, "problems", ())


def _add_headers(response: Response, error: Exception, kind: Kind) -> None:
    if isinstance(error, Unauthorized):
        for challenge in error.challenges:
            response.headers.append("WWW-Authenticate", challenge)
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(error.methods)
    if kind is UNAVAILABLE:
        response.headers["Retry-After"] = "2"
