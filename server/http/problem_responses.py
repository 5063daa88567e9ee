"""Responses for errors: problem+json (RFC 9457), from the table in `server.errors`."""

import logging
import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ampspec.jobs import Problem
from infra.storage import FileDamaged, FileNotStored, PathInvalid, StorageFailed
from server.errors import (
    DATABASE_ERRORS,
    HTTP_PROBLEMS,
    INTERNAL_ERROR,
    UNAVAILABLE,
    UNEXPECTED_DETAIL,
    HttpProblem,
    MethodNotAllowed,
    NotFound,
    RangeNotSatisfiable,
    RequestInvalid,
    TooManyRequests,
    Unauthorized,
)
from server.http.methods import allowed_methods
from server.http.parameters import from_validation_error
from server.http.responses import FiniteJSONResponse
from store.access.projects import QuotaReached
from store.database_errors import CommitOutcomeUnknown, is_outage

log = logging.getLogger(__name__)


def problem_response(error: Exception) -> Response:
    """The problem+json for an error. Its text never contains internals of the server."""
    kind = _http_problem(error)
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
    """Register the handler of every error in the table with the application."""

    async def handle(request: Request, error: Exception) -> Response:
        return problem_response(_from_router(request, error))

    for error in (*HTTP_PROBLEMS, HTTPException):
        app.add_exception_handler(error, handle)


def _from_router(request: Request, error: Exception) -> Exception:
    """Replace the 404 and 405 of Starlette's router by our errors; return any other unchanged."""
    match error:
        case HTTPException(status_code=404):
            slash = " with a trailing slash" if request.url.path[1:].endswith("/") else ""
            return NotFound(f"There is no route at this path{slash}; see /api/v1/docs.")
        case HTTPException(status_code=405):
            return MethodNotAllowed(allowed_methods(request))
    return error


def _http_problem(error: Exception) -> HttpProblem:
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase
        return HttpProblem(error.status_code, phrase.lower().replace(" ", "_"), phrase)
    if is_outage(error) and not isinstance(error, CommitOutcomeUnknown):
        return UNAVAILABLE
    return next(HTTP_PROBLEMS[parent] for parent in type(error).__mro__ if parent in HTTP_PROBLEMS)


def _detail(error: Exception, kind: HttpProblem) -> str:
    if isinstance(error, DATABASE_ERRORS):
        return _detail_of_database(error, kind)
    if isinstance(error, StorageFailed):
        return _detail_of_storage(error)
    if isinstance(error, HTTPException):
        return str(error.detail)
    if isinstance(error, RequestValidationError):
        return str(RequestInvalid(from_validation_error(error)))
    if kind is INTERNAL_ERROR:
        return UNEXPECTED_DETAIL
    return str(error)


def _detail_of_database(error: Exception, kind: HttpProblem) -> str:
    if kind is UNAVAILABLE:
        log.error("the database is unavailable: %s", error)
        return "The database is unavailable, and nothing was changed; try again soon."
    if isinstance(error, CommitOutcomeUnknown):
        log.error("the connection to the database was lost during a commit: %s", error)
        return (
            "The database connection was lost during the commit, so the change may or may not have "
            "been made. Check it, or repeat the request with the same Idempotency-Key: it is "
            "applied at most once."
        )
    log.error("a database query failed because of a bug in the server", exc_info=error)
    return UNEXPECTED_DETAIL


def _detail_of_storage(error: StorageFailed) -> str:
    """A message for the client; the details of the storage are only in the log."""
    if isinstance(error, PathInvalid | FileNotStored):
        return "The job has no such file, or it was deleted."
    log.error("%s", error)
    if isinstance(error, FileDamaged):
        return "The stored file does not match its SHA-256; see the server's log."
    return "The file storage is unavailable; try again soon."


def _problems(error: Exception) -> Sequence[Problem]:
    if isinstance(error, RequestValidationError):
        return from_validation_error(error)
    return getattr(error, "problems", ())


def _add_headers(response: Response, error: Exception, kind: HttpProblem) -> None:
    if isinstance(error, Unauthorized):
        for challenge in error.challenges:
            response.headers.append("WWW-Authenticate", challenge)
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(error.methods)
    if isinstance(error, QuotaReached | TooManyRequests):
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if isinstance(error, RangeNotSatisfiable):
        response.headers["Content-Range"] = f"bytes */{error.size_bytes}"
    if kind is UNAVAILABLE:
        response.headers["Retry-After"] = "2"
