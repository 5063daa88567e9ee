"""The errors of the client: one class for each kind that a caller handles differently."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from ampspec.api.models import AliasChange
    from ampspec.api.studies import Study
    from ampspec.jobs import Problem


class JobLike(Protocol):
    """What errors need of a job; they hold Jobs, or AsyncJobs if the client is an AsyncClient."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def state(self) -> Any:
        """Its state."""

    @property
    def reason(self) -> Any:
        """Why it failed, as a code."""

    @property
    def message(self) -> str | None:
        """Why it failed, as a sentence."""


class AmpcoreError(Exception):
    """The base of all errors: a stable `code`, the HTTP `status` if there was one, a `detail`.

    `request_id` is the id of the request in the server's log, if the server sent one.
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
    """No server address or no token is configured."""

    default_code = "not_configured"


class ConnectionFailed(AmpcoreError):
    """No response arrived; `sent` tells whether the server may have received the request.

    If it may have queued a job, the same call with this `idempotency_key` queues no second job and
    returns the first.
    """

    default_code = "connection_failed"

    def __init__(
        self, detail: str, *, sent: bool = True, idempotency_key: str | None = None
    ) -> None:
        super().__init__(detail)
        self.sent = sent
        self.idempotency_key = idempotency_key


class UnexpectedResponse(AmpcoreError):
    """The response is not one that an ampcore server of this version sends."""

    default_code = "unexpected_response"


class StepsMissing(AmpcoreError):
    """Steps inside the range are not stored, so the range is not a single block."""

    default_code = "steps_missing"


class SpecNotLoaded(AmpcoreError):
    """The job comes from a list without specs, and an AsyncJob cannot fetch its spec lazily."""

    default_code = "spec_not_loaded"


class DigestMismatch(AmpcoreError):
    """A downloaded file does not match its SHA-256; the file was deleted."""

    default_code = "digest_mismatch"


class RunFolderUnusable(AmpcoreError):
    """The folder of a tracked run is in use, damaged, or has another run."""

    default_code = "run_folder_unusable"


class ImportFailed(AmpcoreError):
    """A run of another tool could not be read, or not be sent completely."""

    default_code = "import_failed"


class MirrorFailed(AmpcoreError):
    """A job could not be written to another tool."""

    default_code = "mirror_failed"


class WaitTimeout(AmpcoreError, TimeoutError):
    """The timeout of `wait` expired; `jobs` are the unfinished ones, which keep running."""

    default_code = "wait_timeout"

    def __init__(self, detail: str, *, jobs: Sequence[JobLike] = ()) -> None:
        super().__init__(detail)
        self.jobs = tuple(jobs)


class JobFailed(AmpcoreError):
    """A job failed or was cancelled, and `raise_on_failure` is set."""

    default_code = "job_failed"

    def __init__(self, detail: str, *, job: JobLike) -> None:
        super().__init__(detail, code=job.reason)
        self.job = job


class StudyFailed(AmpcoreError):
    """A study ended without an answer, and `raise_on_failure` is set."""

    default_code = "study_failed"

    def __init__(self, detail: str, *, study: "Study") -> None:
        super().__init__(detail)
        self.study = study


class PromotionRefused(AmpcoreError):
    """A version was not promoted: an assertion does not hold, or is undecided."""

    default_code = "promotion_refused"

    def __init__(self, detail: str, *, change: "AliasChange") -> None:
        super().__init__(detail)
        self.change = change


class StatusError(AmpcoreError):
    """The server returned an error; `title` and `errors` are those of its problem+json."""

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
        # The detail may list the same errors in one text; here each has a line of its own.
        headline = self.title or self.detail.partition("\n")[0]
        return "\n".join([headline, *(f"  {entry}" for entry in self.messages)])

    @property
    def messages(self) -> tuple[str, ...]:
        """Each of the `errors` as a sentence, with its JSON pointer."""
        return tuple(f"{e.get('pointer') or '/'}: {e.get('detail', '')}" for e in self.errors)


class BadRequest(StatusError):
    """400: the request could not be read."""


class Unauthorized(StatusError):
    """401: the token is missing, wrong or no longer valid."""


class Forbidden(StatusError):
    """403: the token does not allow this."""


class NotFound(StatusError):
    """404: the job or endpoint does not exist, or the token may not see it."""

    default_code = "not_found"


class Conflict(StatusError):
    """409: the job is in a state that does not allow this."""


class RequestInFlight(Conflict):
    """409: a request with the same Idempotency-Key is still being processed."""

    default_code = "request_in_flight"


class PayloadTooLarge(StatusError):
    """413: the request is larger than the server allows."""


class InvalidRequest(StatusError):
    """422: a parameter is unknown or has an invalid value."""


class InvalidSpec(InvalidRequest):
    """422: the job spec is invalid; `problems` holds all its mistakes."""

    default_code = "invalid_spec"

    @property
    def problems(self) -> "tuple[Problem, ...]":
        """Each mistake: pointer, code, expected, received, suggestion."""
        from ampspec.jobs import Problem

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
        """The error for mistakes that the client found before sending the spec."""
        count = len(problems)
        detail = f"The job spec has {count} problem{'s' * (count != 1)}."
        return cls(detail, errors=[problem.to_json() for problem in problems])


class TooManyRequests(StatusError):
    """429: too many requests; wait for `retry_after_s`."""


class QuotaExceeded(TooManyRequests):
    """429: the project has reached its quota of queued jobs.

    The client does not retry: the queue shrinks only when a job starts, which may take minutes or
    days.
    """

    default_code = "quota_exceeded"


class DatasetQuotaExceeded(PayloadTooLarge):
    """413: the project has not enough bytes left in its quota for datasets."""

    default_code = "dataset_quota_exceeded"


class ArtifactQuotaExceeded(Conflict):
    """409: the artifacts of the project's jobs take all bytes of its quota; delete old jobs."""

    default_code = "artifact_quota_exceeded"


class ServerError(StatusError):
    """5xx: the server failed."""


class Unavailable(ServerError):
    """503: the server is temporarily unavailable."""


class OutcomeUnknown(ServerError):
    """504: the server does not know whether the change was made; check it.

    The client has already retried with the same key for some seconds.
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
    for error in (
        InvalidSpec,
        RequestInFlight,
        OutcomeUnknown,
        QuotaExceeded,
        DatasetQuotaExceeded,
        ArtifactQuotaExceeded,
    )
}


def error_class_for(status: int, code: str | None) -> type[StatusError]:
    """The error class for a status and a problem's code."""
    if code in BY_CODE:
        return BY_CODE[code]
    return BY_STATUS.get(status, ServerError if status >= 500 else StatusError)
