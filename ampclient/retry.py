"""When to try a request again, and after how long; the same for every kind of client."""

import random
import time
from typing import Final

from ampclient.calls import Request
from ampclient.errors import (
    AmpcoreError,
    ConnectionFailed,
    InFlight,
    QuotaExceeded,
    StatusError,
)

PATIENCE_S: Final = 5.0
"""How long a single request is retried; enough for a server that restarts."""
POLLING_PATIENCE_S: Final = 60.0
"""How long a loop that follows a job bears with a server that is away."""
MAX_RETRY_AFTER_S: Final = 60.0
"""The longest wait that a server can ask for with Retry-After."""

FIRST_DELAY_S: Final = 0.1
MAX_DELAY_S: Final = 2.0
TRANSIENT: Final = frozenset({429, 502, 503, 504})


class Attempts:
    """The attempts at one request: how many failed, and until when it is tried."""

    def __init__(self, request: Request, patience_s: float) -> None:
        self._request = request
        self._patience_s = patience_s
        self.begin_anew()

    def begin_anew(self) -> None:
        """The server has given something: what fails from now on is a new trouble."""
        self._started_s = time.monotonic()
        self._failed = 0

    def delay_s(self, error: AmpcoreError) -> float:
        """How long to wait before the next attempt. Raises `error` when there is to be none."""
        if isinstance(error, QuotaExceeded):
            raise error  # whoever submits wants to know now, not after a silent minute
        asked_s = error.retry_after_s if isinstance(error, StatusError) else None
        if error.status in (429, 503) and asked_s is not None:
            # Who says when to come back has not done what was asked, so any request may.
            delay_s, limit_s = asked_s, max(self._patience_s, MAX_RETRY_AFTER_S)
        elif self._may_repeat(error):
            delay_s, limit_s = self._backoff_s(), self._patience_s
        else:
            raise error
        if time.monotonic() - self._started_s + delay_s > limit_s:
            raise error
        self._failed += 1
        return delay_s

    def _may_repeat(self, error: AmpcoreError) -> bool:
        if isinstance(error, ConnectionFailed):
            return self._request.idempotent or not error.sent
        # In flight: the answer to our own first try, which was lost, is still being made.
        return self._request.idempotent and (
            error.status in TRANSIENT or isinstance(error, InFlight)
        )

    def _backoff_s(self) -> float:
        delay_s = min(FIRST_DELAY_S * 2**self._failed, MAX_DELAY_S)
        # Jitter, so that clients of a server that restarts do not all come at once.
        return float(delay_s * random.uniform(0.75, 1.0))  # noqa: S311 - no secret
