"""Parse HTTP responses: into the result of a request, or into the matching error."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ampclient._endpoints import JsonRequest, Request
from ampclient.errors import StatusError, UnexpectedResponse, error_class_for

T = TypeVar("T")
MAX_SHOWN: Final = 200
NOT_AMPCORE: Final = "This does not look like an ampcore server. Check AMPCORE_URL."
REQUEST_ID: Final = "x-request-id"
PROXY_STATUSES: Final = frozenset({408, 413, 429})
"""Statuses below 500 that a proxy in front of the server may return without problem+json."""


def parse_response(
    request: JsonRequest[T], status: int, headers: Mapping[str, str], content: bytes
) -> T:
    """The parsed response to `request`. Raises StatusError or UnexpectedResponse."""
    raise_for_status(request, status, headers, content)
    try:
        document = json.loads(content) if content else None
    except ValueError:
        raise unexpected_response(
            f"{NOT_AMPCORE} {_described(request)} returned {_excerpt(content)!r}.", status, headers
        ) from None
    try:
        return request.read(document)
    except (KeyError, TypeError, ValueError) as error:
        raise unexpected_response(
            f"Cannot read the response to {_described(request)}: received "
            f"{_excerpt(content)!r} ({_reason(error)}).",
            status,
            headers,
        ) from None


def raise_for_status(
    request: Request, status: int, headers: Mapping[str, str], content: bytes
) -> None:
    """Raise StatusError for an error status, UnexpectedResponse for a redirect."""
    if status >= 400:
        raise error_from_response(status, headers, content)
    if status >= 300:
        raise unexpected_response(
            f"{_described(request)} was redirected to {headers.get('location', 'nowhere')}. "
            "Check the server's address.",
            status,
            headers,
        )


def unexpected_response(detail: str, status: int, headers: Mapping[str, str]) -> UnexpectedResponse:
    """The error for a response that no ampcore server sends."""
    return UnexpectedResponse(detail, status=status, request_id=headers.get(REQUEST_ID))


def error_from_response(status: int, headers: Mapping[str, str], content: bytes) -> StatusError:
    """The error for a response with an error status, whether its body is problem+json or not."""
    problem = _problem(content)
    code = problem.get("code")
    detail = problem.get("detail") or problem.get("title")
    if not code or not detail:  # every error response of ampcore has both
        detail = _plain_detail(status, content)
    return error_class_for(status, code)(
        str(detail),
        title=str(problem.get("title") or ""),
        code=code or f"http_{status}",
        status=status,
        errors=[error for error in problem.get("errors") or () if isinstance(error, dict)],
        retry_after_s=retry_after_s(headers.get("retry-after")),
        request_id=headers.get(REQUEST_ID),
    )


def retry_after_s(value: str | None) -> float | None:
    """Seconds to wait, from a Retry-After header: a number or an HTTP date."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _described(request: Request) -> str:
    return f"{request.method} {request.url_path}"


def _reason(error: Exception) -> str:
    """Why a document could not be parsed: the first invalid field, or the exception."""
    if isinstance(error, ValidationError):
        mistake = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}"
    return f"{type(error).__name__}: {error}"


def _problem(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _plain_detail(status: int, content: bytes) -> str:
    phrase = next((s.phrase for s in HTTPStatus if s == status), "not a standard status")
    description = f"returned {status} ({phrase}): {_excerpt(content)!r}."
    if status in PROXY_STATUSES or status >= 500:
        return f"The server, or a proxy in front of it, {description}"
    return f"{NOT_AMPCORE} It {description}"


def _excerpt(content: bytes) -> str:
    text = " ".join(content.decode("utf-8", "replace").split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
