"""The types of notifications, and patterns that select some of them."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from ampspec.jobs.states import State


class NotificationType(StrEnum):
    """What a notification is about; the part before the dot is its group."""

    JOB_STARTED = "job.started"
    JOB_REQUEUED = "job.requeued"
    JOB_PAUSED = "job.paused"
    JOB_SUCCEEDED = "job.succeeded"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    GUARD_ROLLBACK = "guard.rollback"
    GUARD_FLOAT32_FALLBACK = "guard.float32_fallback"
    GUARD_LOSS_SPIKE = "guard.loss_spike"
    GUARD_GRAD_NORM_JUMP = "guard.grad_norm_jump"
    GUARD_NOT_REPRODUCIBLE = "guard.not_reproducible"
    DIAGNOSIS_OVERFLOW = "diagnosis.overflow"
    DIAGNOSIS_EXPLANATION = "diagnosis.explanation"
    STUDY_SUCCEEDED = "study.succeeded"
    STUDY_FAILED = "study.failed"
    STUDY_CANCELLED = "study.cancelled"
    WORKER_STARTED = "worker.started"
    WORKER_DRAINING = "worker.draining"
    WORKER_STOPPED = "worker.stopped"
    WORKER_LOST = "worker.lost"
    WORKER_RECOVERED = "worker.recovered"
    NOTIFICATION_DISABLED = "notification.disabled"
    NOTIFICATION_TEST = "notification.test"


GROUPS: Final = tuple(sorted({name.partition(".")[0] for name in NotificationType}))
PATTERNS: Final = (*NotificationType, *(f"{group}.*" for group in GROUPS))
"""What a subscription may list: types, and groups such as `job.*`."""

ENDS: Final = (
    NotificationType.JOB_SUCCEEDED,
    NotificationType.JOB_FAILED,
    NotificationType.JOB_CANCELLED,
)
"""The end of a job: a subscription to one job ends with the first of them."""
DEFAULT_TYPES: Final = (*ENDS, "study.*", "notification.disabled")

OF_STATE: Final = {
    State.RUNNING: NotificationType.JOB_STARTED,
    State.QUEUED: NotificationType.JOB_REQUEUED,
    State.PAUSED: NotificationType.JOB_PAUSED,
    State.SUCCEEDED: NotificationType.JOB_SUCCEEDED,
    State.FAILED: NotificationType.JOB_FAILED,
    State.CANCELLED: NotificationType.JOB_CANCELLED,
}
"""The notification of each new state of a job that has one."""


def matches(patterns: Collection[str], notification: str) -> bool:
    """Whether one of the patterns is this type or its group."""
    return notification in patterns or f"{notification.partition('.')[0]}.*" in patterns
