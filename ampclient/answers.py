"""From the bytes of an answer to its meaning, or to the error that it stands for."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar

from ampclient.calls import Call, Request
from ampclient.errors import StatusError, UnexpectedAnswer, class_for

T = TypeVar("T")
MAX_SHOWN: Final = 200
NOT_OURS: Final = "This does not look like an ampcore server; is AMPCORE_URL right?"
REQUEST_ID: Final = "x-request-id"
PROXY_STATUSES: Final = frozenset({408, 413, 429})
"""What a proxy before an ampcore server says in words of its own, beside the errors from 500 on."""


def read_answer(call: Call[T], status: int, headers: Mapping[str, str], content: bytes) -> T:
    """What the answer to `call` says. Raises StatusError or UnexpectedAnswer."""
    raise_for_status(call, status, headers, content)
    try:
        document = json.loads(content) if content else None
    except ValueError:
        raise unexpected(
            f"{NOT_OURS} It answered {_where(call)} with {_shown(content)!r}.", status, headers
        ) from None
    try:
        return call.read(document)
    except (KeyError, TypeError, ValueError) as error:
        raise unexpected(
            f"Expected an ampcore server's answer to {_where(call)}, received "
            f"{_shown(content)!r} ({type(error).__name__}: {error}).",
            status,
            headers,
        ) from None


def raise_for_status(
    request: Request, status: int, headers: Mapping[str, str], content: bytes
) -> None:
    """Return for an answer that is none of an error. Raises StatusError or UnexpectedAnswer."""
    if status >= 400:
        raise error_from(status, headers, content)
    if status >= 300:
        raise unexpected(
            f"Expected an answer to {_where(request)}, received a redirect to "
            f"{headers.get('location', 'nowhere')}; is the address right?",
            status,
            headers,
        )


def unexpected(detail: str, status: int, headers: Mapping[str, str]) -> UnexpectedAnswer:
    """The error for an answer that no ampcore server gives."""
    return UnexpectedAnswer(detail, status=status, request_id=headers.get(REQUEST_ID))


def error_from(status: int, headers: Mapping[str, str], content: bytes) -> StatusError:
    """The error that a problem+json answer, or any other with such a status, stands for."""
    problem = _problem(content)
    code = problem.get("code")
    detail = problem.get("detail") or problem.get("title")
    if not code or not detail:  # every answer of ampcore has both
        detail = _plain_detail(status, content)
    return class_for(status, code)(
        str(detail),
        title=str(problem.get("title") or ""),
        code=code or f"http_{status}",
        status=status,
        errors=[error for error in problem.get("errors") or () if isinstance(error, dict)],
        retry_after_s=retry_after_s(headers.get("retry-after")),
        request_id=headers.get(REQUEST_ID),
    )


def retry_after_s(value: str | None) -> float | None:
    """Seconds to wait, out of a Retry-After header: a number or an HTTP date."""
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


def _where(request: Request) -> str:
    return f"{request.method} {request.url_path}"


def _problem(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _plain_detail(status: int, content: bytes) -> str:
    phrase = next((s.phrase for s in HTTPStatus if s == status), "not a standard status")
    answer = f"answered {status} ({phrase}): {_shown(content)!r}."
    if status in PROXY_STATUSES or status >= 500:
        return f"The server, or a proxy before it, {answer}"
    return f"{NOT_OURS} It {answer}"


def _shown(content: bytes) -> str:
    text = " ".join(content.decode("utf-8", "replace").split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
