"""Errors (RFC 9457, problem details)."""

from ampspec.api.base import ApiModel


class ProblemDetail(ApiModel):
    """One problem of a request: its JSON pointer, the expected and the received value."""

    pointer: str
    code: str
    detail: str
    expected: str
    received: str | None = None
    suggestion: str | None = None


class ErrorResponse(ApiModel):
    """Why a request failed (RFC 9457); `code` is stable, for programs."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemDetail] | None = None
