"""How many requests a token may send in a while, and how often an address may fail to sign in.

Counted in this process alone: with several replicas each allows as many.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol

from limits import parse
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter

from server.errors import TooManyRequests

OFF: Final = "off"
KEPT: Final = 10_000
"""Counters beyond which those that have run out are thrown away."""


class Limit(Protocol):
    """What may refuse a request."""

    def hit(self, key: str) -> None:
        """Count one more for the key. Raises TooManyRequests."""

    def check(self, key: str) -> None:
        """Raises TooManyRequests when the next hit would; counts nothing."""


class NoLimit:
    """Refuses nothing."""

    def hit(self, key: str) -> None:
        """Nothing is counted."""

    def check(self, key: str) -> None:
        """Nothing was counted."""


class RateLimit:
    """So many in each window of time, which begins with the first."""

    def __init__(self, rate: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._item = parse(rate)
        self._counters = Counters(clock)
        self._clock = clock
        self._limiter = FixedWindowRateLimiter(self._counters)

    def hit(self, key: str) -> None:
        """Count one more for the key. Raises TooManyRequests."""
        if not self._limiter.hit(self._item, key):
            raise self._refusal(key)

    def check(self, key: str) -> None:
        """Raises TooManyRequests when the next hit would; counts nothing."""
        if not self._limiter.test(self._item, key):
            raise self._refusal(key)

    def _refusal(self, key: str) -> TooManyRequests:
        wait_s = self._counters.get_expiry(self._item.key_for(key)) - self._clock()
        return TooManyRequests(
            f"Expected at most {self._item}; try again in {max(1, round(wait_s))} s.", wait_s
        )


@dataclass
class Counter:
    """How many were counted, and until when they count."""

    until: float
    count: int = 0


class Counters(Storage):
    """The counts in memory; the library's own ones start a thread every 10 ms to forget some."""

    STORAGE_SCHEME = None
    base_exceptions = ()

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._counters: dict[str, Counter] = {}
        self._changing = Lock()

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count `amount` more; a new window of `expiry` seconds begins where the last has ended."""
        now = self._clock()
        with self._changing:
            counter = self._counters.get(key)
            if counter is None or counter.until <= now:
                self._make_room(now)
                counter = self._counters[key] = Counter(now + expiry)
            counter.count += amount
            return counter.count

    def get(self, key: str) -> int:
        """How many were counted in the present window."""
        counter = self._counters.get(key)
        return counter.count if counter is not None and counter.until > self._clock() else 0

    def get_expiry(self, key: str) -> float:
        """When the present window ends, by the clock."""
        counter = self._counters.get(key)
        return counter.until if counter is not None else self._clock()

    def check(self) -> bool:
        """Memory is always there."""
        return True

    def reset(self) -> int | None:
        """Forget everything."""
        self._counters.clear()
        return None

    def clear(self, key: str) -> None:
        """Forget one key."""
        self._counters.pop(key, None)

    def _make_room(self, now: float) -> None:
        """Bound the memory; where nothing has run out, the oldest windows give way."""
        if len(self._counters) < KEPT:
            return
        running = {key: one for key, one in self._counters.items() if one.until > now}
        newest = list(running.items())[-KEPT // 2 :]
        self._counters = dict(newest)


def limit_of(rate: str) -> Limit:
    """The limit that the setting AMPCORE_RATE_LIMIT asks for, as in 60000/minute."""
    return NoLimit() if rate == OFF else RateLimit(rate)
