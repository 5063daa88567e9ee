"""Retry policy: which requests are retried, after how long, and for how long."""

import random
import time
from typing import Final

from ampclient._endpoints import Request
from ampclient.errors import (
    AmpcoreError,
    ConnectionFailed,
    QuotaExceeded,
    RequestInFlight,
    StatusError,
)

RETRY_TIMEOUT_S: Final = 5.0
"""How long a single request is retried; enough for a server restart."""
POLLING_RETRY_TIMEOUT_S: Final = 60.0
"""How long a loop that follows a job retries an unreachable server."""
MAX_RETRY_AFTER_S: Final = 60.0
"""The longest Retry-After delay that the client honours."""

FIRST_DELAY_S: Final = 0.1
MAX_DELAY_S: Final = 2.0
RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504})


class RetryState:
    """The tries of one request: how many failed, and until when it is retried."""

    def __init__(
        self, request: Request, retry_timeout_s: float, max_retries: int | None = None
    ) -> None:
        self._request = request
        self._retry_timeout_s = retry_timeout_s
        self._max_retries = max_retries
        self.reset()

    def reset(self) -> None:
        """Start again after a success: later failures are counted anew."""
        self._started_s = time.monotonic()
        self._failed = 0

    def next_delay_s(self, error: AmpcoreError) -> float:
        """Seconds to wait before the next try. Raises `error` if there is none."""
        if isinstance(error, QuotaExceeded):
            raise error  # waiting could take days; report it at once
        if self._failed == self._max_retries:
            raise error
        asked_s = error.retry_after_s if isinstance(error, StatusError) else None
        if error.status in (429, 503) and asked_s is not None:
            # Retry-After means that the request was not applied, so any request may be repeated.
            next_delay_s, limit_s = asked_s, max(self._retry_timeout_s, MAX_RETRY_AFTER_S)
        elif self._may_repeat(error):
            next_delay_s, limit_s = self._backoff_s(), self._retry_timeout_s
        else:
            raise error
        if time.monotonic() - self._started_s + next_delay_s > limit_s:
            raise error
        self._failed += 1
        return next_delay_s

    def _may_repeat(self, error: AmpcoreError) -> bool:
        if isinstance(error, ConnectionFailed):
            return self._request.is_idempotent or not error.sent
        # In flight: the server still processes our first try, whose response was lost.
        return self._request.is_idempotent and (
            error.status in RETRYABLE_STATUSES or isinstance(error, RequestInFlight)
        )

    def _backoff_s(self) -> float:
        next_delay_s = min(FIRST_DELAY_S * 2**self._failed, MAX_DELAY_S)
        # Jitter, so that clients do not all retry at the same moment after a restart.
        return float(next_delay_s * random.uniform(0.75, 1.0))  # noqa: S311 - no secret
