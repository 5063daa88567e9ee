"""The last answers to what is asked again and again, so that an unchanged one costs a 304."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from ampclient.calls import Request

SIZE: Final = 256
"""As many jobs may be waited for together before answers are sent in full again."""

Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Known:
    """What an answer said, and the ETag under which the server knows that answer."""

    etag: str
    value: Any


class LastAnswers:
    """The last answer to each of the newest conditional requests; threads may share it."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, Known] = OrderedDict()
        self._lock = Lock()

    def get(self, request: Request) -> Known | None:
        """The last answer to the same request; None where it must be asked for in full."""
        return self._answers.get(_key(request)) if request.conditional else None

    def keep(self, request: Request, etag: str | None, value: Any) -> None:
        """Take note of an answer, if it can be asked for again by its ETag."""
        if not request.conditional or etag is None:
            return
        with self._lock:
            self._answers[_key(request)] = Known(etag, value)
            self._answers.move_to_end(_key(request))
            if len(self._answers) > SIZE:
                self._answers.popitem(last=False)


def _key(request: Request) -> Key:
    return request.path, tuple(request.params)
