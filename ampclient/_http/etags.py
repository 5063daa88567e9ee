"""Caches the last response to polled requests, so that an unchanged one costs only a 304."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from ampclient._endpoints import Request

MAX_CACHED_RESPONSES: Final = 256
"""The number of jobs that can be polled together with conditional requests."""

Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class CachedResponse:
    """The parsed content of a response, and its ETag."""

    etag: str
    value: Any


class EtagCache:
    """The last response to each of the most recent conditional requests; thread-safe."""

    def __init__(self) -> None:
        self._responses: OrderedDict[Key, CachedResponse] = OrderedDict()
        self._lock = Lock()

    def get(self, request: Request) -> CachedResponse | None:
        """The cached response to the same request; None if there is none."""
        return self._responses.get(_key(request)) if request.uses_etag else None

    def store(self, request: Request, etag: str | None, value: Any) -> None:
        """Cache a response if the request is conditional and the response has an ETag."""
        if not request.uses_etag or etag is None:
            return
        with self._lock:
            self._responses[_key(request)] = CachedResponse(etag, value)
            self._responses.move_to_end(_key(request))
            if len(self._responses) > MAX_CACHED_RESPONSES:
                self._responses.popitem(last=False)


def _key(request: Request) -> Key:
    """What the response depends on: not on how long the server waits for a change, or for which."""
    params = (pair for pair in request.params if pair[0] not in ("wait", "until"))
    return request.path, tuple(params)
