"""What a notification says: what happened, in which job, why, and what to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ampspec.notifications.types import NotificationType

MAX_TEXT: Final = 1000
"""Characters of a reason or a message of a job; some services refuse a long text."""


class JobFacts(Protocol):
    """What a message says about a job."""

    id: Any
    name: Any
    state: Any
    reason: Any
    message: Any
    attempt: Any
    step: Any
    total_steps: Any


@dataclass(frozen=True)
class Message:
    """A message before it is addressed to a subscription.

    `path` is the part of its link after the address of the dashboard.
    """

    type: NotificationType
    title: str
    text: str
    path: str
    facts: Mapping[str, Any] = field(default_factory=dict)


HAPPENED: Final = {
    NotificationType.JOB_STARTED: "has started to train",
    NotificationType.JOB_REQUEUED: "is queued again",
    NotificationType.JOB_PAUSED: "is paused",
    NotificationType.JOB_SUCCEEDED: "succeeded",
    NotificationType.JOB_FAILED: "failed",
    NotificationType.JOB_CANCELLED: "was cancelled",
}
JOB_ADVICE: Final = {
    NotificationType.JOB_FAILED: "Read its output with `ampctl job logs {id}`; when the cause is "
    "removed, queue it again with `ampctl job retry {id}`.",
    NotificationType.JOB_PAUSED: "It continues from its checkpoint with `ampctl job resume {id}`.",
}
GUARD_TITLES: Final = {
    NotificationType.GUARD_ROLLBACK: "{name} returned to its last good state",
    NotificationType.GUARD_FLOAT32_FALLBACK: "{name} continues in float32",
    NotificationType.GUARD_LOSS_SPIKE: "The loss of {name} rose suddenly",
    NotificationType.GUARD_GRAD_NORM_JUMP: "The gradient norm of {name} rose suddenly",
    NotificationType.GUARD_NOT_REPRODUCIBLE: "A step of {name} was not reproducible",
    NotificationType.DIAGNOSIS_OVERFLOW: "The cause of an overflow of {name}",
    NotificationType.DIAGNOSIS_EXPLANATION: "The explanation of {name} is ready",
}
EVENT_TEXTS: Final = {
    NotificationType.GUARD_ROLLBACK: "Too many steps in a row were skipped, so the guard returned "
    "to the last good state, with half the loss scale.",
    NotificationType.GUARD_FLOAT32_FALLBACK: "Too many steps in a row were skipped, so the guard "
    "went on from the last good state in float32.",
    NotificationType.DIAGNOSIS_EXPLANATION: "Its page shows where the values left the range of the "
    "number format.",
}
"""What is said where the event itself has no message."""
EVENT_ADVICE: Final = {
    NotificationType.GUARD_LOSS_SPIKE: "Look at the learning rate and at the examples of this "
    "step.",
    NotificationType.GUARD_GRAD_NORM_JUMP: "Clip the gradients, or lower the learning rate, if it "
    "repeats.",
}
WORKER_TITLES: Final = {
    NotificationType.WORKER_STARTED: "Worker {id} on {hostname} has started",
    NotificationType.WORKER_DRAINING: "Worker {id} on {hostname} drains",
    NotificationType.WORKER_STOPPED: "Worker {id} on {hostname} has stopped",
    NotificationType.WORKER_LOST: "Worker {id} on {hostname} is lost",
    NotificationType.WORKER_RECOVERED: "Worker {id} on {hostname} is online again",
}
WORKER_TEXTS: Final = {
    NotificationType.WORKER_STARTED: "It takes the jobs of its queues.",
    NotificationType.WORKER_DRAINING: "It requeues its jobs at a checkpoint, and then stops.",
    NotificationType.WORKER_STOPPED: "Its jobs are queued again, or have ended.",
    NotificationType.WORKER_LOST: "It stopped sending heartbeats. Its jobs are queued again on "
    "other workers. Check its machine, and start the worker again.",
    NotificationType.WORKER_RECOVERED: "It sends heartbeats again.",
}


def job_message(notification: NotificationType, job: JobFacts) -> Message:
    """The message about a new state of a job.

    Args:
        notification: One of `ampspec.notifications.types.OF_STATE`.
        job: The job in its new state.

    Returns:
        The message.
    """
    happened = HAPPENED[notification]
    sentences = [f"The job {_name(job)} ({job.id}) {happened}{_progress(job)}."]
    if job.message:
        sentences.append(_shortened(job.message))
    if advice := JOB_ADVICE.get(notification):
        sentences.append(advice.format(id=job.id))
    title = f"{_name(job)} {happened}"
    return Message(notification, title, " ".join(sentences), _job_path(job), _job_facts(job))


def event_message(
    notification: NotificationType, job: JobFacts, step: int | None, data: Mapping[str, Any]
) -> Message:
    """The message about an event of a job.

    Args:
        notification: One of `ampspec.notifications.events.OF_EVENT`.
        job: The job.
        step: The step of the event.
        data: The data of the event.

    Returns:
        The message.
    """
    where = f"The job {_name(job)} ({job.id})" + ("" if step is None else f", step {step:,}")
    said = data.get("message") or data.get("sentence") or EVENT_TEXTS.get(notification, "")
    advice = EVENT_ADVICE.get(notification, "")
    text = " ".join(filter(None, (f"{where}:", _shortened(said), advice)))
    title = GUARD_TITLES[notification].format(name=_name(job))
    facts = _job_facts(job) | {"step": step, "message": _shortened(said)}
    return Message(notification, title, text, _job_path(job), facts)


def study_message(
    notification: NotificationType, study_id: str, kind: str, name: str, message: str | None
) -> Message:
    """The message about the end of a study.

    Args:
        notification: One of the types `study.…`.
        study_id: The study.
        kind: What it asks, such as `precision`.
        name: Its name.
        message: Why it ended like this; None if it succeeded.

    Returns:
        The message.
    """
    state = notification.partition(".")[2]
    happened = "was cancelled" if state == "cancelled" else state
    subject = f"The study {name}" if name else f"The {kind} study"
    answer = "Its answer is ready." if notification is NotificationType.STUDY_SUCCEEDED else ""
    sentences = (f"{subject} ({study_id}) {happened}.", _shortened(message or ""), answer)
    facts = {"id": study_id, "kind": kind, "name": name, "state": state, "message": message}
    title = f"{name or f'The {kind} study'} {happened}"
    path = f"#/studies/{study_id}"
    return Message(notification, title, " ".join(filter(None, sentences)), path, {"study": facts})


def worker_message(notification: NotificationType, worker_id: str, hostname: str) -> Message:
    """The message about a worker.

    Args:
        notification: One of the types `worker.…`.
        worker_id: The worker.
        hostname: Its machine.

    Returns:
        The message.
    """
    title = WORKER_TITLES[notification].format(id=worker_id, hostname=hostname)
    facts = {"worker": {"id": worker_id, "hostname": hostname}}
    return Message(notification, title, WORKER_TEXTS[notification], "#/workers", facts)


def disabled_message(subscription_id: str, name: str, reason: str) -> Message:
    """The message that a subscription was disabled.

    Args:
        subscription_id: The subscription.
        name: Its name.
        reason: Why, as a sentence.

    Returns:
        The message.
    """
    text = (
        f"{_shortened(reason)} Messages that it would get now are not recorded. When its receiver "
        f"works again, run `ampctl notification enable {subscription_id}`, and send again what "
        f"failed with `ampctl notification resend {subscription_id} --since TIME`."
    )
    facts = {"notification": {"id": subscription_id, "name": name, "reason": reason}}
    title = f"The notification {name} is disabled"
    return Message(NotificationType.NOTIFICATION_DISABLED, title, text, "#/notifications", facts)


def example_message(name: str) -> Message:
    """The message that a person sends to try a subscription.

    Args:
        name: The name of the subscription.

    Returns:
        The message.
    """
    text = f"The notification {name} works: messages of ampcore arrive here."
    title = f"A test of {name}"
    return Message(NotificationType.NOTIFICATION_TEST, title, text, "#/notifications")


def _name(job: JobFacts) -> str:
    return str(job.name or job.id)


def _progress(job: JobFacts) -> str:
    if not job.step:
        return ""
    total = f" of {job.total_steps:,}" if job.total_steps else ""
    return f" after {job.step:,}{total} steps"


def _job_path(job: JobFacts) -> str:
    return f"#/jobs/{job.id}"


def _job_facts(job: JobFacts) -> dict[str, Any]:
    names = ("id", "name", "state", "reason", "message", "attempt", "step", "total_steps")
    facts = {name: getattr(job, name) for name in names}
    return {"job": facts | {"message": _shortened(job.message or "") or None}}


def _shortened(text: Any) -> str:
    text = str(text)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
