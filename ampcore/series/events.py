"""Events: the ledger of what happened to a job beside its steps."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class EventType(StrEnum):
    """What can be said in the ledger."""

    STATE = "state"
    EDITED = "edited"
    PREFLIGHT = "preflight"
    STARTED = "started"
    RESUMED = "resumed"
    ENGINE = "engine"
    OVERFLOW = "overflow"
    SCALE_GROWTH = "scale_growth"
    ROLLBACK = "rollback"
    FLOAT32_FALLBACK = "float32_fallback"
    EPOCH = "epoch"
    EVALUATION = "evaluation"
    CHECKPOINT_SAVED = "checkpoint_saved"
    SCALE_TABLE = "scale_table"
    MODEL_SAVED = "model_saved"
    WARNING = "warning"


@dataclass(frozen=True)
class Event:
    """One entry: its type, the step it belongs to (None: to the whole run), and its facts.

    `data` holds JSON values; non-finite numbers are written as `finite_json` does.
    """

    type: EventType
    step: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
