"""What a receiver answered to a message, and what follows from it."""

from dataclasses import dataclass
from typing import Final

from server.notifications.retry_schedule import retry_delay_s
from store.notifications.deliveries import TryResult

GONE: Final = 410
GONE_REASON: Final = "Its receiver answered 410 Gone: it wants no more messages."


@dataclass(frozen=True)
class Response:
    """The response of a receiver, or why there is none.

    Attributes:
        error: What went wrong; None if the message was accepted.
        status_code: Of HTTP.
        excerpt: The start of the body.
        retry_after_s: How long the receiver asked to wait.
    """

    error: str | None
    status_code: int | None = None
    excerpt: str | None = None
    retry_after_s: float | None = None


def try_result(attempts: int, response: Response, duration_s: float) -> TryResult:
    """What is recorded of a try, and when the next one is due.

    Args:
        attempts: The number of this try, from 1.
        response: Of the receiver.
        duration_s: Of the try.

    Returns:
        The result.
    """
    is_gone = response.status_code == GONE
    retry_in_s = None
    if response.error is not None and not is_gone:
        retry_in_s = retry_delay_s(attempts, response.retry_after_s)
    return TryResult(
        response.error,
        response.status_code,
        response.excerpt,
        duration_s,
        retry_in_s,
        GONE_REASON if is_gone else None,
    )
