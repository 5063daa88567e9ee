"""The errors of the HTTP API, and the table that maps each to a status and a code (RFC 9457).

`server.http.problem_responses` makes the responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ampspec.jobs import Problem, SpecValidationError
from infra.storage import FileDamaged, FileNotStored, PathInvalid, StorageFailed
from store.access.idempotency import KeyReused
from store.access.projects import QuotaReached
from store.access.tokens import LastAdminToken
from store.database_errors import CommitOutcomeUnknown
from store.files.artifact_quota import ArtifactQuotaReached
from store.files.dataset_uploads import TooManyUploads
from store.files.datasets import StorageQuotaReached
from store.jobs.tracked_runs import RunConflict

TOO_MANY_OPEN_RETRY_S: Final = 2.0
"""Retry-After when too many connections or long responses are open."""


class ServerError(Exception):
    """The base of the errors of a request; the message is shown to the client."""


class RequestInvalid(ServerError):
    """Parameters of a request are invalid; `problems` holds all mistakes."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__(" ".join(str(problem) for problem in problems))


class MalformedHttp(ServerError):
    """The bytes on the connection are not an HTTP request."""


class MalformedJson(ServerError):
    """The body is not a JSON document."""


class Unauthorized(ServerError):
    """No token, or an unknown one; `challenges` are the WWW-Authenticate headers."""

    def __init__(self, message: str, challenges: Sequence[str]) -> None:
        super().__init__(message)
        self.challenges = challenges


class Forbidden(ServerError):
    """The token is valid, but its role and scopes do not allow the request."""


class CrossOrigin(ServerError):
    """The request has a session cookie, but may come from a page of another origin."""


class TooManyRequests(ServerError):
    """The rate limit is exceeded; `retry_after_s` goes into Retry-After."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooManyOpen(TooManyRequests):
    """A token or an address has too many long responses or connections open."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} Close one, or try again soon.", TOO_MANY_OPEN_RETRY_S)


class NotFound(ServerError):
    """The resource does not exist, or the principal may not see it."""


class MethodNotAllowed(ServerError):
    """The path does not support the method; `methods` are those that it supports."""

    def __init__(self, methods: Sequence[str]) -> None:
        super().__init__(f"Expected one of the methods of this path: {', '.join(methods)}.")
        self.methods = methods


class Conflict(ServerError):
    """The current state of the resource does not allow the request."""


class PayloadTooLarge(ServerError):
    """The request body is too long."""


class UnsupportedMediaType(ServerError):
    """The Content-Type of the request is not JSON."""


class LengthRequired(ServerError):
    """The request does not tell the length of its body."""


class HeadersTooLarge(ServerError):
    """The request headers are too long, or too many."""


class RangeNotSatisfiable(ServerError):
    """The requested range lies outside the file."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"Expected a range within the {size_bytes} bytes of the file.")
        self.size_bytes = size_bytes


class Unavailable(ServerError):
    """A service that the server depends on does not respond; `problems` name it."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class Busy(Unavailable):
    """Other requests of the same kind take all threads that there are for them."""

    def __init__(self) -> None:
        super().__init__("The server is busy with other requests of this kind; try again soon.")


@dataclass(frozen=True)
class HttpProblem:
    """The HTTP form of an error: status, stable code for programs, and title."""

    status: int
    code: str
    title: str


UNAVAILABLE: Final = HttpProblem(503, "unavailable", "The service is temporarily unavailable")
INVALID_REQUEST: Final = HttpProblem(422, "invalid_request", "The request is invalid")
INTERNAL_ERROR: Final = HttpProblem(500, "internal_error", "Internal server error")
UNEXPECTED_DETAIL: Final = "Internal error; see the server's log."

HTTP_PROBLEMS: Final[dict[type[Exception], HttpProblem]] = {
    MalformedHttp: HttpProblem(400, "malformed_http", "The data received is not an HTTP request"),
    MalformedJson: HttpProblem(400, "malformed_json", "The request body is not valid JSON"),
    Unauthorized: HttpProblem(401, "unauthorized", "A valid token is required"),
    Forbidden: HttpProblem(403, "forbidden", "The token's role or scopes do not allow this"),
    CrossOrigin: HttpProblem(403, "cross_origin", "Cross-origin requests are not allowed"),
    NotFound: HttpProblem(404, "not_found", "Not found"),
    MethodNotAllowed: HttpProblem(
        405, "method_not_allowed", "The path does not support this method"
    ),
    Conflict: HttpProblem(409, "conflict", "The current state does not allow this"),
    RunConflict: HttpProblem(409, "conflict", "The current state does not allow this"),
    LastAdminToken: HttpProblem(409, "last_admin", "This is the last admin token"),
    ArtifactQuotaReached: HttpProblem(
        409, "artifact_quota_exceeded", "The project's quota of artifact bytes is exhausted"
    ),
    LengthRequired: HttpProblem(411, "length_required", "A Content-Length is required"),
    PayloadTooLarge: HttpProblem(413, "payload_too_large", "The request body is too large"),
    StorageQuotaReached: HttpProblem(
        413, "dataset_quota_exceeded", "The project's quota of dataset bytes is exhausted"
    ),
    UnsupportedMediaType: HttpProblem(
        415, "unsupported_media_type", "The request body is not JSON"
    ),
    RangeNotSatisfiable: HttpProblem(416, "range_not_satisfiable", "The range is outside the file"),
    SpecValidationError: HttpProblem(422, "invalid_spec", "The job spec is invalid"),
    RequestInvalid: INVALID_REQUEST,
    KeyReused: HttpProblem(
        422, "idempotency_key_reused", "The Idempotency-Key was used for another request"
    ),
    QuotaReached: HttpProblem(429, "quota_exceeded", "The project's quota is exhausted"),
    TooManyUploads: HttpProblem(429, "too_many_uploads", "Too many unfinished uploads"),
    TooManyRequests: HttpProblem(429, "too_many_requests", "Too many requests"),
    TooManyOpen: HttpProblem(429, "too_many_open", "Too many open connections or streams"),
    HeadersTooLarge: HttpProblem(431, "headers_too_large", "The request headers are too large"),
    RequestValidationError: INVALID_REQUEST,
    PathInvalid: HttpProblem(404, "not_found", "Not found"),
    FileNotStored: HttpProblem(404, "not_found", "Not found"),
    FileDamaged: HttpProblem(502, "damaged_file", "The stored file is damaged"),
    StorageFailed: UNAVAILABLE,
    Unavailable: UNAVAILABLE,
    CommitOutcomeUnknown: HttpProblem(
        504, "outcome_unknown", "It is unknown whether the change was made"
    ),
    DBAPIError: INTERNAL_ERROR,
    InvalidatePoolError: UNAVAILABLE,
    PoolTimeout: UNAVAILABLE,
    Exception: INTERNAL_ERROR,
}
"""Exception class to HTTP form. A database error that is an outage (`store.database_errors`) is
UNAVAILABLE, whatever its class."""

DATABASE_ERRORS: Final = (DBAPIError, InvalidatePoolError, PoolTimeout)
"""Errors of SQLAlchemy: outages, and queries that are wrong because of a bug."""
