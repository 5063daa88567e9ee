"""Decode stored payloads; a damaged one loses only its rows."""

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

log = logging.getLogger(__name__)
P = TypeVar("P")
T = TypeVar("T")

DAMAGED: Final = (ValueError, KeyError, TypeError, zlib.error)
"""Exceptions that the decoders raise for bytes that are no payload."""


def decoded(
    payloads: Iterable[P], decode: Callable[[P], T], job_id: str, attempt: int
) -> Iterator[T]:
    """Decode the payloads of an attempt; those that cannot be read are logged and left out."""
    for payload in payloads:
        try:
            value = decode(payload)
        except DAMAGED as error:
            log.error("steps of the job %s, attempt %d, cannot be read: %s", job_id, attempt, error)
        else:
            yield value
