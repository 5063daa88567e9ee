"""What a model card says about the training, read from the events and ranges of the job."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from ampspec.precision.precision import COMPUTE_DTYPE
from ampspec.telemetry import EventType
from server.telemetry.range_reader import evenly_spaced, read_samples
from store import tables
from store.telemetry import events, ranges

MAX_SAMPLES: Final = 50
MAX_EVENTS: Final = 1000
TYPES: Final = (
    *(EventType.OVERFLOW, EventType.LOSS_SPIKE, EventType.GRAD_NORM_JUMP),
    *(EventType.NOT_REPRODUCIBLE, EventType.ROLLBACK, EventType.FLOAT32_FALLBACK),
    *(EventType.PREFLIGHT, EventType.WARNING),
)
SIXTEEN_BITS: Final = ("float16", "bfloat16")


@dataclass(frozen=True)
class TrainingFacts:
    """The events of a training, and what its ranges say about 16-bit formats."""

    event_counts: dict[str, int]
    more_events: bool
    """Whether there are more events than were counted."""
    findings: list[str]
    """Messages of warnings and of preflight findings, each once."""
    sampled_steps: int
    range_sentences: dict[str, str]
    """By number format."""


NO_FACTS: Final = TrainingFacts(
    {}, more_events=False, findings=[], sampled_steps=0, range_sentences={}
)


def training_facts(session: Session, version: tables.ModelVersion) -> TrainingFacts:
    """Read the facts of a version's job; empty ones if the job is deleted."""
    job_id = version.job_id
    if job_id is None:
        return NO_FACTS
    rows = events.read(session, job_id, types=TYPES, limit=MAX_EVENTS)
    steps = ranges.steps(session, job_id)
    policy = (version.lineage.get("precision") or {}).get("policy")
    return TrainingFacts(
        event_counts=dict(Counter(row.type for row in rows if row.type not in _SPOKEN)),
        more_events=len(rows) == MAX_EVENTS,
        findings=_messages(rows),
        sampled_steps=len(steps),
        range_sentences=_range_sentences(session, job_id, steps, policy),
    )


_SPOKEN: Final = (EventType.PREFLIGHT, EventType.WARNING)
"""Events with a message of their own."""
_FIGURES: Final = "figures"
"""The code of a preflight finding that is a table of numbers."""


def _messages(rows: Sequence[tables.EventRow]) -> list[str]:
    messages: dict[str, None] = {}
    for row in rows:
        data = row.data if isinstance(row.data, dict) else {}
        if row.type in _SPOKEN and data.get("code") != _FIGURES and data.get("message"):
            messages[str(data["message"])] = None
    return list(messages)


def _range_sentences(
    session: Session, job_id: str, steps: Sequence[int], policy: str | None
) -> dict[str, str]:
    if not steps:
        return {}
    # They load NumPy, which a server needs only for ranges.
    from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS
    from ampspec.telemetry.ranges.range_report import range_report

    samples = read_samples(session, job_id, evenly_spaced(steps, MAX_SAMPLES))
    used = COMPUTE_DTYPE.get(policy or "")
    names = dict.fromkeys([*([used] if used in NUMBER_FORMATS else []), *SIXTEEN_BITS])
    sentences: dict[str, str] = {}
    for name in names:
        report = range_report(samples, NUMBER_FORMATS[name])
        if report is not None:
            sentences[name] = report.sentence
    return sentences
