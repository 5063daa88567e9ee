"""What can go wrong at the edge, and the one table of how HTTP says it (RFC 9457)."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from ampcore.spec import Problem, SpecInvalid
from server.http.methods import allowed
from server.http.parameters import RequestInvalid, from_validation_error
from server.http.responses import FiniteJSONResponse
from service.storage import Damaged, NotStored, PathInvalid, StorageFailed
from store.database_errors import OutcomeUnknown, is_outage
from store.idempotency import KeyReused
from store.projects import QuotaExceeded
from store.tokens import LastAdmin

log = logging.getLogger(__name__)

OPEN_AGAIN_S: Final = 2.0
"""When to try again where too much is open."""


class ServerError(Exception):
    """An answer that is no success; the message is for the person who asked."""


class MalformedHttp(ServerError):
    """What came over the connection is no HTTP."""


class MalformedJson(ServerError):
    """The body is not a JSON document."""


class Unauthorized(ServerError):
    """No token, or not one of ours; `challenges` are the WWW-Authenticate headers."""

    def __init__(self, message: str, challenges: Sequence[str]) -> None:
        super().__init__(message)
        self.challenges = challenges


class Forbidden(ServerError):
    """The token is valid, but its role does not allow that."""


class CrossOrigin(ServerError):
    """A page of another origin may have sent it with a cookie of ours."""


class TooManyRequests(ServerError):
    """More requests in a while than are allowed; `retry_after_s` says when to come again."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooManyOpen(TooManyRequests):
    """A token or an address has as many long answers or connections open as it may."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} Close one, or try again soon.", OPEN_AGAIN_S)


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


class UnsupportedMediaType(ServerError):
    """The body is no JSON by its own word."""


class HeadersTooLarge(ServerError):
    """The headers are longer, or more, than the server reads."""


class RangeNotSatisfiable(ServerError):
    """None of the bytes asked for are in the file."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"Expected a range within the {size_bytes} bytes of the file.")
        self.size_bytes = size_bytes


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
UNEXPECTED: Final = "An error that nobody expected; the server's log tells more."

KINDS: Final[dict[type[Exception], Kind]] = {
    MalformedHttp: Kind(400, "malformed_http", "What was sent is no HTTP request"),
    MalformedJson: Kind(400, "malformed_json", "The body is not a JSON document"),
    Unauthorized: Kind(401, "unauthorized", "A valid token is needed"),
    Forbidden: Kind(403, "forbidden", "The token's role does not allow that"),
    CrossOrigin: Kind(403, "cross_origin", "A page of another origin may not do that"),
    NotFound: Kind(404, "not_found", "There is no such thing"),
    MethodNotAllowed: Kind(405, "method_not_allowed", "The path does not take this method"),
    Conflict: Kind(409, "conflict", "The present state does not allow that"),
    LastAdmin: Kind(409, "last_admin", "Nobody could make another token"),
    PayloadTooLarge: Kind(413, "payload_too_large", "The body is too long"),
    UnsupportedMediaType: Kind(415, "unsupported_media_type", "The body is not JSON"),
    RangeNotSatisfiable: Kind(416, "range_not_satisfiable", "The file has no such bytes"),
    SpecInvalid: Kind(422, "invalid_spec", "The job spec has mistakes"),
    RequestInvalid: INVALID_REQUEST,
    KeyReused: Kind(422, "idempotency_key_reused", "The key belongs to another request"),
    QuotaExceeded: Kind(429, "quota_exceeded", "The project's quota is used up"),
    TooManyRequests: Kind(429, "too_many_requests", "Too many requests in a short time"),
    TooManyOpen: Kind(429, "too_many_open", "Too much is open at one time"),
    HeadersTooLarge: Kind(431, "headers_too_large", "The headers are too long"),
    RequestValidationError: INVALID_REQUEST,
    PathInvalid: Kind(404, "not_found", "There is no such thing"),
    NotStored: Kind(404, "not_found", "There is no such thing"),
    Damaged: Kind(502, "damaged_file", "The file is not what it was"),
    StorageFailed: UNAVAILABLE,
    Unavailable: UNAVAILABLE,
    OutcomeUnknown: Kind(504, "outcome_unknown", "Nobody knows whether it was done"),
    DBAPIError: INTERNAL_ERROR,
    InvalidatePoolError: UNAVAILABLE,
    PoolTimeout: UNAVAILABLE,
    Exception: INTERNAL_ERROR,
}
"""The table: domain error to status and code. An error of the database that is an outage
(`store.database_errors`) is UNAVAILABLE, whatever its class."""
EXPECTED: Final = tuple(error for error in KINDS if error is not Exception)
"""What belongs to a day's work; anything else is a failure of ours."""

DATABASE_ERRORS: Final = (DBAPIError, InvalidatePoolError, PoolTimeout)
"""What the database raises: outages, and mistakes of ours in how it was asked."""


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
    if is_outage(error) and not isinstance(error, OutcomeUnknown):
        return UNAVAILABLE
    return next(KINDS[parent] for parent in type(error).__mro__ if parent in KINDS)


def _detail(error: Exception, kind: Kind) -> str:
    if isinstance(error, DATABASE_ERRORS):
        return _detail_of_database(error, kind)
    if isinstance(error, StorageFailed):
        return _detail_of_storage(error)
    if isinstance(error, HTTPException):
        return str(error.detail)
    if isinstance(error, RequestValidationError):
        return str(RequestInvalid(from_validation_error(error)))
    if kind is INTERNAL_ERROR:
        return UNEXPECTED
    return str(error)


def _detail_of_database(error: Exception, kind: Kind) -> str:
    if kind is UNAVAILABLE:
        log.error("the database does not answer: %s", error)
        return "The database does not answer, and nothing was done; try again soon."
    if isinstance(error, OutcomeUnknown):
        log.error("the database did not answer to a commit: %s", error)
        return (
            "The database did not say whether the change was made. Look whether it was; or send "
            "the same request with the same Idempotency-Key again, which does nothing twice."
        )
    log.error("the database was asked wrongly", exc_info=error)
    return UNEXPECTED


def _detail_of_storage(error: StorageFailed) -> str:
    """What a client may know of the storage: not where it is, nor what it said."""
    if isinstance(error, PathInvalid | NotStored):
        return "The job has no such file, or no more."
    log.error("%s", error)
    if isinstance(error, Damaged):
        return "The stored file has other bytes than it had; the server's log tells more."
    return "The storage of files does not answer; try again soon."


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
    if isinstance(error, QuotaExceeded | TooManyRequests):
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if isinstance(error, RangeNotSatisfiable):
        response.headers["Content-Range"] = f"bytes */{error.size_bytes}"
    if kind is UNAVAILABLE:
        response.headers["Retry-After"] = "2"
