"""Events: the entries of a job's event log, which records everything except the steps."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

PROFILE_FAILED: Final = "profile_failed"
PROFILE_NOT_TAKEN: Final = "profile_not_taken"
NO_PROFILE: Final = (PROFILE_FAILED, PROFILE_NOT_TAKEN)
"""The codes of warnings that answer a request for a profile without a report."""
RESULT_WARNINGS: Final = frozenset(
    {
        "no_better_than_constant",
        "no_best_evaluation",
        "non_finite_gradients",
        "non_finite_loss",
        "frozen_at_random",
        "precision_not_delivered",
        "evaluation_not_reported",
        "model_not_saved",
        "model_not_exported",
    }
)
"""The codes of warnings about what was trained, which a result is shown with.

Warnings about how it was trained, such as a checkpoint that was not written, are in the events.
"""


class EventType(StrEnum):
    """The types of events."""

    STATE = "state"
    EDITED = "edited"
    ALLOCATION = "allocation"
    PREFLIGHT = "preflight"
    STARTED = "started"
    DATA_FETCHED = "data_fetched"
    RESUMED = "resumed"
    WEIGHTS_LOADED = "weights_loaded"
    ENGINE = "engine"
    OVERFLOW = "overflow"
    SCALE_GROWTH = "scale_growth"
    LOSS_SPIKE = "loss_spike"
    GRAD_NORM_JUMP = "grad_norm_jump"
    NOT_REPRODUCIBLE = "not_reproducible"
    ROLLBACK = "rollback"
    FLOAT32_FALLBACK = "float32_fallback"
    EPOCH = "epoch"
    EVALUATION = "evaluation"
    STOPPED_EARLY = "stopped_early"
    CHECKPOINT_SAVED = "checkpoint_saved"
    SCALE_TABLE = "scale_table"
    RANGES = "ranges"
    MODEL_SAVED = "model_saved"
    EXPLANATION = "explanation"
    PROFILE = "profile"
    RANKS = "ranks"
    STEP_TIMES = "step_times"
    WARNING = "warning"


@dataclass(frozen=True)
class Event:
    """One entry: its type, the step it belongs to (None: the whole run), and its data.

    `data` holds JSON values; non-finite numbers are written as `json_safe` does.
    """

    type: EventType
    step: int | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def warning(cls, code: str, message: str, step: int | None = None) -> Self:
        """A warning with a text (`message`) and a stable `code`."""
        return cls(EventType.WARNING, step, {"code": code, "message": message})
