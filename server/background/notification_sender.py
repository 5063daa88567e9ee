"""The notification sender: a background thread that delivers messages. Every server has one."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from server.background.periodic_thread import FailureLog, PeriodicThread
from server.notifications.deliverer import Deliverer
from store.notifications.deliveries import ClaimedDelivery

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
MAX_TRIES: Final = 8
"""Tries of one server at one time, each of another subscription."""


class NotificationSender:
    """A thread that claims what is due, and others that send it.

    Args:
        deliverer: Claims and sends.
        every_s: The pause between two looks at what is due, in seconds.
    """

    def __init__(self, deliverer: Deliverer, *, every_s: float = INTERVAL_S) -> None:
        self._deliverer = deliverer
        self._running = 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(MAX_TRIES, "notification-try")
        self._failures = FailureLog(log)
        self._thread = PeriodicThread("notification-sender", self._round, every_s)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Claim nothing more. A try in progress is repeated by another server if it is cut off."""
        self._thread.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _round(self) -> bool:
        """Whether more may be due that there is room for."""
        return self._failures.attempt("delivering notifications", self._start_tries)

    def _start_tries(self) -> bool:
        with self._lock:
            room = MAX_TRIES - self._running
        claimed = self._deliverer.claim(room) if room else ()
        for delivery in claimed:
            with self._lock:
                self._running += 1
            self._pool.submit(self._deliver, delivery)
        return 0 < len(claimed) == room

    def _deliver(self, delivery: ClaimedDelivery) -> None:
        try:
            self._failures.attempt(
                "recording deliveries", lambda: self._deliverer.deliver(delivery)
            )
        finally:
            with self._lock:
                self._running -= 1
