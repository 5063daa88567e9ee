"""What can go wrong between a program and the server: one small tree, one class per remedy."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ampclient.job import Job
    from ampcore.spec import Problem


class AmpcoreError(Exception):
    """Any error of this package: a stable `code`, the HTTP `status` if one came, a `detail`.

    `request_id` is the name under which the server's log knows the request, if it told one.
    """

    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code or self.default_code
        self.status = status
        self.detail = detail
        self.request_id = request_id


class NotConfigured(AmpcoreError):
    """Nobody said which server to speak to, or with which token."""

    default_code = "not_configured"


class ConnectionFailed(AmpcoreError):
    """No answer came; `sent` tells whether the server may have seen the request.

    Where it may have queued a job, the same call with this `idempotency_key` queues no second
    one, and answers with the first.
    """

    default_code = "connection_failed"

    def __init__(
        self, detail: str, *, sent: bool = True, idempotency_key: str | None = None
    ) -> None:
        super().__init__(detail)
        self.sent = sent
        self.idempotency_key = idempotency_key


class UnexpectedResponse(AmpcoreError):
    """An answer came that no ampcore server of this version gives."""

    default_code = "unexpected_answer"


class StepsMissing(AmpcoreError):
    """Steps in the midst of a range are not stored, so that it is no single block of steps."""

    default_code = "steps_missing"


class SpecNotLoaded(AmpcoreError):
    """The job comes from a list that left its spec out, and cannot be asked for it by itself."""

    default_code = "spec_not_loaded"


class DigestMismatch(AmpcoreError):
    """The bytes of a downloaded file are not those that the server promised; it was removed."""

    default_code = "digest_mismatch"


class WaitTimeout(AmpcoreError, TimeoutError):
    """The time given to `wait` is over; the `jobs` that it still waited for go on."""

    default_code = "wait_timeout"

    def __init__(self, detail: str, *, jobs: Sequence[Any] = ()) -> None:
        super().__init__(detail)
        self.jobs: tuple[Job, ...] = tuple(jobs)
        """Of AsyncClient AsyncJobs."""


class JobFailed(AmpcoreError):
    """A job ended as failed or cancelled, and `raise_on_failure` was asked for."""

    default_code = "job_failed"

    def __init__(self, detail: str, *, job: Any) -> None:
        super().__init__(detail, code=job.reason)
        self.job: Job = job
        """Of AsyncClient an AsyncJob."""


class StatusError(AmpcoreError):
    """The server answered with an error; `title` and `errors` are those of its problem+json."""

    default_code = "http_error"

    def __init__(
        self,
        detail: str,
        *,
        title: str = "",
        code: str | None = None,
        status: int | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        retry_after_s: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(detail, code=code, status=status, request_id=request_id)
        self.title = title
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        if not self.errors:
            return self.detail
        # The detail may tell the same mistakes in one piece; here each has a line of its own.
        headline = self.title or self.detail.partition("\n")[0]
        return "\n".join([headline, *(f"  {entry}" for entry in self.messages)])

    @property
    def messages(self) -> tuple[str, ...]:
        """Each of the `errors` in a sentence, with its place in the request."""
        return tuple(f"{e.get('pointer') or '/'}: {e.get('detail', '')}" for e in self.errors)


class BadRequest(StatusError):
    """400: the request could not be read."""


class Unauthorized(StatusError):
    """401: the token is missing, wrong or no longer valid."""


class Forbidden(StatusError):
    """403: the token does not allow this."""


class NotFound(StatusError):
    """404: there is no such job, for you at least (or no such endpoint)."""

    default_code = "not_found"


class Conflict(StatusError):
    """409: the job is in a state that does not allow this."""


class RequestInFlight(Conflict):
    """409: a request with the same Idempotency-Key is being answered right now."""

    default_code = "request_in_flight"


class PayloadTooLarge(StatusError):
    """413: the request is larger than the server takes."""


class InvalidRequest(StatusError):
    """422: a parameter is unknown or has a wrong value."""


class InvalidSpec(InvalidRequest):
    """422: the job spec has mistakes; `problems` holds every one of them."""

    default_code = "invalid_spec"

    @property
    def problems(self) -> "tuple[Problem, ...]":
        """Each mistake: pointer, code, expected, received, suggestion."""
        from ampcore.spec import Problem

        return tuple(
            Problem(
                error.get("pointer", ""),
                error.get("code", self.code),
                error.get("expected") or error.get("detail", "another value"),
                error.get("received"),
                error.get("suggestion"),
            )
            for error in self.errors
        )

    @classmethod
    def from_problems(cls, problems: "Sequence[Problem]") -> "InvalidSpec":
        """The error for mistakes that were found before anything was sent."""
        count = len(problems)
        detail = f"The job spec has {count} problem{'s' * (count != 1)}."
        return cls(detail, errors=[problem.to_json() for problem in problems])


class TooManyRequests(StatusError):
    """429: slow down; `retry_after_s` says for how long."""


class QuotaExceeded(TooManyRequests):
    """429: the project has as many jobs in the queue as it may.

    It is told at once and not waited for: a place becomes free when a job begins, which may take
    minutes or days.
    """

    default_code = "quota_exceeded"


class ServerError(StatusError):
    """5xx: the server failed."""


class Unavailable(ServerError):
    """503: the server cannot answer now."""


class OutcomeUnknown(ServerError):
    """504: the server does not know whether the change was made; look whether it was.

    The client has sent it again under the same key, for some seconds, and nobody could tell.
    """

    default_code = "outcome_unknown"


BY_STATUS: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: PayloadTooLarge,
    422: InvalidRequest,
    429: TooManyRequests,
    503: Unavailable,
}


BY_CODE: dict[str, type[StatusError]] = {
    error.default_code: error
    for error in (InvalidSpec, RequestInFlight, OutcomeUnknown, QuotaExceeded)
}


def error_class_for(status: int, code: str | None) -> type[StatusError]:
    """The class of error that a status and a problem's code stand for."""
    if code in BY_CODE:
        return BY_CODE[code]
    return BY_STATUS.get(status, ServerError if status >= 500 else StatusError)
