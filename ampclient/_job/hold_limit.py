"""Limits how long the server may hold a request: a proxy may cut it, the server may refuse."""

import time
from typing import Final

from ampclient.errors import AmpcoreError, ConnectionFailed

LONG_POLL_S: Final = 20.0
"""How long the server may hold a request; proxies commonly end one after 60 s, some after 30 s."""
MIN_HOLD_S: Final = 1.0
"""A request that may be held for less is not worth holding."""
RETRY_HOLD_S: Final = 60.0
"""How long jobs are polled before the server may hold a request again."""
REFUSED: Final = frozenset({429, 503})
CUT: Final = frozenset({502, 504})


class HoldLimit:
    """The limit of one waiter: it is halved, or nothing is held for a while."""

    def __init__(self) -> None:
        self._limit_s = LONG_POLL_S
        self._polls_until_s = 0.0

    def seconds(self) -> float:
        """For how long the server may hold the next request; 0: not at all."""
        return self._limit_s if time.monotonic() >= self._polls_until_s else 0.0

    def reduce(self, error: AmpcoreError) -> None:
        """Hold for less after a held request has failed; the same request may work without.

        Raises:
            AmpcoreError: `error`, if it would not.
        """
        if error.status in REFUSED:
            self._poll_for_a_while()
        elif error.status in CUT or (isinstance(error, ConnectionFailed) and error.sent):
            self._limit_s /= 2
            if self._limit_s < MIN_HOLD_S:
                self._poll_for_a_while()
        elif not isinstance(error, ConnectionFailed):
            raise error

    def _poll_for_a_while(self) -> None:
        self._limit_s, self._polls_until_s = LONG_POLL_S, time.monotonic() + RETRY_HOLD_S
