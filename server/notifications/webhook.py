"""Send a message to a webhook, signed as Standard Webhooks defines it."""

import ssl
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httpcore
from standardwebhooks import Webhook

from ampspec.telemetry.json_values import storable_text
from infra.address_policy import AddressPolicy, AddressRefused
from server.notifications.pinned_connections import PinnedBackend, Resolver
from server.notifications.tries import Response

TIMEOUT_S: Final = 20.0
"""For all of a try: name, connection, TLS, request and response."""
MAX_RESPONSE_BYTES: Final = 1_000
"""What is read of a response; the rest is not received."""
MAX_ERROR: Final = 500
REQUEST_HEADERS: Final = {
    "content-type": "application/json",
    "user-agent": "ampcore",
    "accept-encoding": "identity",
}
SUCCESS: Final = range(200, 300)
REDIRECTS: Final = range(300, 400)


def signed_headers(message_id: str, body: str, secrets: Sequence[str]) -> dict[str, str]:
    """The headers that Standard Webhooks defines, signed with each secret.

    Args:
        message_id: The same for each try.
        body: The exact text of the body.
        secrets: The current secret, and for a day after a rotation the previous one.

    Returns:
        `webhook-id`, `webhook-timestamp` (of this try) and `webhook-signature`.
    """
    at = datetime.now(UTC)
    signatures = [Webhook(secret).sign(message_id, at, body) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def send_webhook(
    url: str,
    body: str,
    headers: dict[str, str],
    policy: AddressPolicy,
    *,
    timeout_s: float = TIMEOUT_S,
    resolve: Resolver | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> Response:
    """Send one request; redirects are not followed, and little of the response is read.

    Args:
        url: A checked address (`server.notifications.targets`).
        body: The body.
        headers: Of `signed_headers`.
        policy: The addresses that are allowed.
        timeout_s: For everything together.
        resolve: Replaces `socket.getaddrinfo`.
        ssl_context: Replaces the trusted certificates.

    Returns:
        The response; its `error` is None for a status of 200 to 299.
    """
    address = urlsplit(url)
    backend = PinnedBackend(policy, time.monotonic() + timeout_s, resolve)
    context = ssl_context or (_trusted_certificates() if address.scheme == "https" else None)
    try:
        with (
            httpcore.ConnectionPool(context, network_backend=backend, http2=False) as pool,
            pool.stream(
                "POST",
                _httpcore_url(address),
                headers=list((headers | REQUEST_HEADERS | {"host": address.netloc}).items()),
                content=body.encode(),
            ) as response,
        ):
            return _read_response(response)
    except AddressRefused as error:
        return Response(str(error))
    except (httpcore.TimeoutException, TimeoutError):
        return Response(f"Expected a response within {timeout_s:g} s, received none.")
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        reason = _text(str(error) or type(error).__name__).rstrip(".")
        return Response(f"The request failed: {reason}.")


def _httpcore_url(address: SplitResult) -> httpcore.URL:
    path = (address.path or "/") + (f"?{address.query}" if address.query else "")
    return httpcore.URL(
        scheme=address.scheme.encode(),
        host=(address.hostname or "").encode("ascii"),
        port=address.port,
        target=path.encode(),
    )


def _read_response(response: httpcore.Response) -> Response:
    received = b""
    for piece in response.iter_stream():
        received += piece[: MAX_RESPONSE_BYTES - len(received)]
        if len(received) >= MAX_RESPONSE_BYTES:
            break
    excerpt = _text(received.decode("utf-8", "replace")) or None
    names = {name.lower(): value for name, value in response.headers}
    retry_after_s = _retry_after_s(names.get(b"retry-after", b"").decode("ascii", "replace"))
    return Response(_error_of(response.status), response.status, excerpt, retry_after_s)


def _error_of(status: int) -> str | None:
    if status in SUCCESS:
        return None
    hint = " Redirects are not followed: use the new address." if status in REDIRECTS else ""
    return f"Expected a status from 200 to 299, received {status}.{hint}"


def _retry_after_s(text: str) -> float | None:
    """The seconds in a Retry-After header, which has a number or a date; None without one."""
    if text.strip().isdigit() and len(text) < 10:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _text(text: str) -> str:
    return storable_text(text)[:MAX_ERROR]


@cache
def _trusted_certificates() -> ssl.SSLContext:
    context = httpcore.default_ssl_context()
    context.load_default_certs()  # also those that the operator has added to the machine
    return context
