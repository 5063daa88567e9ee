"""Group consecutive events that differ in their numbers only, for a log that people read."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ampspec.telemetry.events import EventType

if TYPE_CHECKING:
    from ampspec.api.job.events import JobEvent

MIN_GROUP: Final = 3
"""Fewer events than this are shown one by one."""
REPEATED: Final = frozenset(
    {
        EventType.ALLOCATION,
        EventType.OVERFLOW,
        EventType.SCALE_GROWTH,
        EventType.LOSS_SPIKE,
        EventType.GRAD_NORM_JUMP,
        EventType.NOT_REPRODUCIBLE,
        EventType.STEP_TIMES,
        EventType.CHECKPOINT_SAVED,
        EventType.WARNING,
    }
)
"""Types that a job can have by the hundred; results, as evaluations, are never grouped."""
NON_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_NUMBER: Final = re.compile(r"-?\d[\d.,]*(?:e[-+]?\d+)?|\b(?:nan|inf|infinity)\b", re.IGNORECASE)


@dataclass(frozen=True)
class EventGroup:
    """Consecutive events that differ in their numbers only; most groups have one event."""

    events: "Sequence[JobEvent]"

    @property
    def first(self) -> "JobEvent":
        """The first event."""
        return self.events[0]

    @property
    def last(self) -> "JobEvent":
        """The last event."""
        return self.events[-1]

    @property
    def steps(self) -> tuple[int, int] | None:
        """The lowest and the highest step; None if no event has one."""
        steps = [event.step for event in self.events if event.step is not None]
        return (min(steps), max(steps)) if steps else None


def group_events(events: "Iterable[JobEvent]") -> list[EventGroup]:
    """The events in order, with at least MIN_GROUP near-equal ones in a row as one group.

    Two events are near-equal if type, attempt and data are the same but for numbers: another
    code, cause, layer or network is another group.
    """
    groups: list[EventGroup] = []
    run: list[JobEvent] = []
    run_key: str | None = None
    for event in events:
        key = _key(event)
        if run and (key is None or key != run_key):
            groups += _groups_of(run)
            run = []
        run.append(event)
        run_key = key
    return groups + _groups_of(run)


def _groups_of(run: "list[JobEvent]") -> list[EventGroup]:
    if len(run) >= MIN_GROUP:
        return [EventGroup(run)]
    return [EventGroup([event]) for event in run]


def _key(event: "JobEvent") -> str | None:
    """What equal events share; None for an event that is never grouped."""
    if event.type not in REPEATED:
        return None
    facts = [event.type, event.attempt, _without_numbers(event.data)]
    return json.dumps(facts, sort_keys=True, default=str)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, str):
        return 0 if value in NON_FINITE else _NUMBER.sub("0", value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, dict):
        return {str(name): _without_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_without_numbers(item) for item in value]
        return [0] if items and all(item == 0 for item in items) else items
    return 0
