"""Histogram of request durations by route."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

WAITED_S: Final = "waited_s"
"""The key in `scope["state"]` of the seconds that a request has waited."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER_ROUTE: Final = "other"
"""The label for unknown routes and methods, so that clients cannot create new series."""
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def histogram(registry: CollectorRegistry) -> Histogram:
    """The histogram, in seconds."""
    return Histogram(
        "ampcore_http_request_duration_seconds",
        "Time from a request's headers to the start of its response, without waiting for jobs.",
        ["method", "route", "status"],
        buckets=BUCKETS,
        registry=registry,
    )


@contextmanager
def waiting(scope: Scope) -> Iterator[None]:
    """Leave the time that a request waits for something to happen out of its duration."""
    began = time.perf_counter()
    try:
        yield
    finally:
        waited_s = time.perf_counter() - began
        scope["state"][WAITED_S] = scope["state"].get(WAITED_S, 0.0) + waited_s


class RequestTimes:
    """ASGI middleware: measures until the response starts, since a stream may last for days."""

    def __init__(self, app: ASGIApp, times: Histogram) -> None:
        self.app = app
        self._times = times

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and take the time when its response starts."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                took_s = time.perf_counter() - began - scope.get("state", {}).get(WAITED_S, 0.0)
                self._observe(scope, status, took_s)
            await send(message)

        try:
            await self.app(scope, receive, watch)
        except Exception:
            if not status:  # an outer middleware responds
                self._observe(scope, 500, time.perf_counter() - began)
            raise

    def _observe(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else OTHER_ROUTE
        self._times.labels(method, route_of(scope), str(status)).observe(seconds)


def route_of(scope: Scope) -> str:
    """The path template of the route."""
    path = getattr(scope.get("route"), "path", None)
    return OTHER_ROUTE if path is None else str(path)
