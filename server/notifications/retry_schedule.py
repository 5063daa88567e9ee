"""When a message is sent again that was not received: the schedule of Standard Webhooks.

Source: standard-webhooks/spec/standard-webhooks.md, "Deliverability and reliability".
"""

import random
from typing import Final

_HOURS: Final = (2, 5, 10, 14, 20, 24)
DELAYS_S: Final = (5.0, 300.0, 1800.0, *(hours * 3600.0 for hours in _HOURS))
"""The pauses after the first, the second, … try."""
JITTER: Final = 0.2
"""A pause is longer by a random part of this share, so that many messages spread out."""
MAX_RETRY_AFTER_S: Final = 86_400.0


def retry_delay_s(attempts: int, retry_after_s: float | None = None) -> float | None:
    """The pause until the next try.

    Args:
        attempts: How often it was tried.
        retry_after_s: What the receiver asked for.

    Returns:
        Seconds; None after the last try.
    """
    if attempts > len(DELAYS_S):
        return None
    pause_s = DELAYS_S[attempts - 1] * (1 + JITTER * random.random())  # noqa: S311 - no secret
    return max(pause_s, min(retry_after_s or 0.0, MAX_RETRY_AFTER_S))
