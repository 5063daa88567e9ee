"""The entries of an upload: blocks of steps, events and pieces of the log, as they are sent."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ampspec.telemetry import StepBlock
from ampspec.telemetry.json_values import json_safe, storable_text
from ampspec.telemetry.steps import array_codec

OVERHEAD_BYTES: Final = 200
"""The size of an entry besides its values."""
MAX_TEXT: Final = 20_000
"""Characters of an entry of the log."""


@dataclass(frozen=True)
class PendingEntry:
    """An entry as it is sent; `first_step`, `end_step` and `steps` are those of a block."""

    document: Mapping[str, Any]
    size_bytes: int
    first_step: int | None = None
    steps: int = 0
    end_step: int = 0

    @property
    def is_alone(self) -> bool:
        """Whether it is sent in a request of its own."""
        return self.document.get("type") in ("attempt", "image")

    @property
    def begins_attempt(self) -> bool:
        """Whether the program goes on from an earlier step with this entry."""
        return self.document.get("type") == "attempt"


@dataclass(frozen=True)
class LoggedSteps:
    """The steps of a run so far: the first one, None without one, and the one after the last."""

    first: int | None = None
    end: int = 0

    def with_entry(self, entry: PendingEntry) -> "LoggedSteps":
        """The steps with those of one more entry."""
        if entry.begins_attempt:
            return LoggedSteps(self.first, int(entry.document["first_step"]))
        if entry.first_step is None:
            return self
        first = entry.first_step if self.first is None else min(self.first, entry.first_step)
        return LoggedSteps(first, entry.end_step)


def attempt_entry(first_step: int) -> PendingEntry:
    """The program goes on at a step: steps from there on are trained again."""
    return PendingEntry({"type": "attempt", "first_step": first_step}, OVERHEAD_BYTES)


def image_entry(name: str, step: int, content: bytes) -> PendingEntry:
    """A picture, with its file."""
    text = base64.b64encode(content).decode()
    sha256 = hashlib.sha256(content).hexdigest()
    document = {"type": "image", "name": name, "step": step, "sha256": sha256, "content": text}
    return PendingEntry(document, len(text) + OVERHEAD_BYTES)


def steps_entry(block: StepBlock, scale_health: str | None) -> PendingEntry:
    """A block, compressed; without a health nothing is known of the loss scale."""
    names = ("step", *block.names) if block.has_gaps else block.names
    unknown = {"loss_scale"} if scale_health is None else set()
    arrays = {name: block[name] for name in names if name not in unknown}
    packed = base64.b64encode(array_codec.encode(arrays)).decode()
    document: dict[str, Any] = {"type": "steps", "first_step": block.first_step, "packed": packed}
    if scale_health is not None:
        document["scale_health"] = scale_health
    size_bytes = len(packed) + OVERHEAD_BYTES
    return PendingEntry(document, size_bytes, block.first_step, len(block), block.end_step)


def event_entry(event: str, data: Mapping[str, Any], step: int | None = None) -> PendingEntry:
    """An event. Raises TypeError or ValueError for data that is not JSON."""
    document = {"type": "event", "event": event, "step": step, "data": json_safe(dict(data))}
    return PendingEntry(document, len(json.dumps(document)) + OVERHEAD_BYTES)


def log_entries(text: str, stream: str) -> Iterator[PendingEntry]:
    """Pieces of a text of any length."""
    plain = storable_text(text)
    for begin in range(0, len(plain), MAX_TEXT):
        document = {"type": "log", "stream": stream, "text": plain[begin : begin + MAX_TEXT]}
        yield PendingEntry(document, len(json.dumps(document)) + OVERHEAD_BYTES)
