"""The notifications of events. The client does not need them: the module of events loads NumPy."""

from typing import Final

from ampspec.notifications.types import NotificationType
from ampspec.telemetry.events import EventType

OF_EVENT: Final = {
    EventType.ROLLBACK: NotificationType.GUARD_ROLLBACK,
    EventType.FLOAT32_FALLBACK: NotificationType.GUARD_FLOAT32_FALLBACK,
    EventType.LOSS_SPIKE: NotificationType.GUARD_LOSS_SPIKE,
    EventType.GRAD_NORM_JUMP: NotificationType.GUARD_GRAD_NORM_JUMP,
    EventType.NOT_REPRODUCIBLE: NotificationType.GUARD_NOT_REPRODUCIBLE,
    EventType.OVERFLOW: NotificationType.DIAGNOSIS_OVERFLOW,
    EventType.EXPLANATION: NotificationType.DIAGNOSIS_EXPLANATION,
}
"""The notification of each event of a job that has one; of overflows, those with a diagnosis."""
ONCE_PER_ATTEMPT: Final = (
    NotificationType.GUARD_LOSS_SPIKE,
    NotificationType.GUARD_GRAD_NORM_JUMP,
    NotificationType.DIAGNOSIS_OVERFLOW,
)
"""A job may have thousands of these events: only the first of each attempt is sent."""
