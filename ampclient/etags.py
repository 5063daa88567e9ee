"""The last answers to what is asked again and again, so that an unchanged one costs a 304."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from ampclient.requests import Request

MAX_CACHED_RESPONSES: Final = 256
"""As many jobs may be waited for together before answers are sent in full again."""

Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class CachedResponse:
    """What an answer said, and the ETag under which the server knows that answer."""

    etag: str
    value: Any


class EtagCache:
    """The last answer to each of the newest conditional requests; threads may share it."""

    def __init__(self) -> None:
        self._responses: OrderedDict[Key, CachedResponse] = OrderedDict()
        self._lock = Lock()

    def get(self, request: Request) -> CachedResponse | None:
        """The last answer to the same request; None where it must be asked for in full."""
        return self._responses.get(_key(request)) if request.uses_etag else None

    def store(self, request: Request, etag: str | None, value: Any) -> None:
        """Take note of an answer, if it can be asked for again by its ETag."""
        if not request.uses_etag or etag is None:
            return
        with self._lock:
            self._responses[_key(request)] = CachedResponse(etag, value)
            self._responses.move_to_end(_key(request))
            if len(self._responses) > MAX_CACHED_RESPONSES:
                self._responses.popitem(last=False)


def _key(request: Request) -> Key:
    return request.path, tuple(request.params)
