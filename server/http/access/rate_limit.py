"""A rate limit in fixed windows, counted in this process.

It limits wrong secrets, which cost this process queries and log lines. The limit of requests counts
over all servers: `server.http.access.shared_rate_limit`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from limits import parse
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter

from server.errors import TooManyRequests

MAX_COUNTERS: Final = 10_000
"""Above this number of counters, expired ones are removed."""


class RateLimit:
    """Limits the number of hits per window; a window starts with its first hit."""

    def __init__(self, rate: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._item = parse(rate)
        self._counters = MemoryCounters(clock)
        self._clock = clock
        self._limiter = FixedWindowRateLimiter(self._counters)

    def hit(self, key: str) -> None:
        """Count a hit for the key. Raises TooManyRequests."""
        if not self._limiter.hit(self._item, key):
            raise self._refusal(key)

    def check(self, key: str) -> None:
        """Raise TooManyRequests if the next hit would raise it; counts nothing."""
        if not self._limiter.test(self._item, key):
            raise self._refusal(key)

    def _refusal(self, key: str) -> TooManyRequests:
        wait_s = self._counters.get_expiry(self._item.key_for(key)) - self._clock()
        return TooManyRequests(
            f"Expected at most {self._item}; try again in {max(1, round(wait_s))} s.", wait_s
        )


@dataclass
class WindowCount:
    """The count of a window, and when the window ends."""

    until: float
    count: int = 0


class MemoryCounters(Storage):
    """In-memory counters; those of the library are unbounded and start threads for the expiry."""

    STORAGE_SCHEME = None
    base_exceptions = ()

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._counters: dict[str, WindowCount] = {}
        self._changing = Lock()

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add `amount`; a new window of `expiry` seconds starts after the last has ended."""
        now = self._clock()
        with self._changing:
            counter = self._counters.get(key)
            if counter is None or counter.until <= now:
                self._make_room(now)
                counter = self._counters[key] = WindowCount(now + expiry)
            counter.count += amount
            return counter.count

    def set(self, key: str, count: int, until: float) -> None:
        """Replace the count and the end of the window."""
        with self._changing:
            if key not in self._counters:
                self._make_room(self._clock())
            self._counters[key] = WindowCount(until, count)

    def get(self, key: str) -> int:
        """The count in the current window."""
        counter = self._counters.get(key)
        return counter.count if counter is not None and counter.until > self._clock() else 0

    def get_expiry(self, key: str) -> float:
        """When the current window ends, in seconds of the clock."""
        counter = self._counters.get(key)
        return counter.until if counter is not None else self._clock()

    def check(self) -> bool:
        """Memory is always available."""
        return True

    def reset(self) -> int | None:
        """Remove all counters."""
        self._counters.clear()
        return None

    def clear(self, key: str) -> None:
        """Remove one counter."""
        self._counters.pop(key, None)

    def _make_room(self, now: float) -> None:
        """Bound the memory: remove expired counters, and if there are none, the oldest ones."""
        if len(self._counters) < MAX_COUNTERS:
            return
        running = {key: counter for key, counter in self._counters.items() if counter.until > now}
        newest = list(running.items())[-MAX_COUNTERS // 2 :]
        self._counters = dict(newest)
