"""The schema of a trainer's frames: what their headers may hold.

Fields that are not named here are ignored, except in the data of events and in summaries, which
are stored as they are.
"""

from collections import defaultdict
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ampspec.documents.json_limits import check_json
from ampspec.jobs import Reason
from ampspec.telemetry import EventType, frames
from ampspec.telemetry.activities import OF_TRAINER, Activity
from ampspec.telemetry.frames import FrameType
from ampspec.telemetry.json_values import storable_text

KIB: Final = 2**10
MAX_STEP: Final = 2**53
MAX_NAMES: Final = 1000
MAX_EXPORTS: Final = 8
"""The files of one model in other formats, with their report."""
MAX_HEADER_BYTES: Final = defaultdict(
    lambda: 256 * KIB,
    {FrameType.EVENT: frames.MAX_HEADER_BYTES, FrameType.SUCCEEDED: 1024 * KIB},
)
"""The size of the header of each type of frame."""
EVENTS_OF_OTHERS: Final = (
    *(EventType.STATE, EventType.EDITED, EventType.ALLOCATION, EventType.DATA_FETCHED),
)
"""Events that servers and workers write."""
EVENTS_WITH_FILE: Final = (EventType.CHECKPOINT_SAVED, EventType.MODEL_SAVED)

REASONS_OF_OTHERS: Final = (
    *(Reason.USER_REQUEST, Reason.TIMEOUT, Reason.NO_SANDBOX, Reason.RESOURCE_LIMIT),
    *(Reason.PROCESS_KILLED, Reason.WORKER_LOST, Reason.WORKER_SHUTDOWN, Reason.RESIZED),
    *(Reason.STORAGE_UNAVAILABLE, Reason.INVALID_TELEMETRY, Reason.RUN_FAILED, Reason.RUN_LOST),
)
"""Reasons that servers and workers find."""

Step = Annotated[int, Field(ge=0, le=MAX_STEP)]
Text = Annotated[str, Field(max_length=200)]
PolicyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]
FileName = Annotated[str, Field(max_length=4096)]
# JSON has only text as keys, and pydantic refuses some of it as `str`.
Object = Annotated[dict[Any, Any], AfterValidator(check_json)]


def _message(value: object) -> str:
    """Text that every database stores: messages may quote names of files in any encoding."""
    if not isinstance(value, str):
        raise ValueError("expected text")
    return storable_text(value)


def _activity(activity: Activity) -> Activity:
    if activity not in OF_TRAINER:
        raise ValueError("expected an activity of a trainer")
    return activity


Message = Annotated[Any, AfterValidator(_message)]


class Header(BaseModel):
    """Values of exactly the named types: nothing is converted."""

    model_config = ConfigDict(strict=True)


class Ready(Header):
    """The process waits for a job."""

    hardware: Object = Field(default_factory=dict)
    versions: dict[Text, Text] = Field(default_factory=dict, max_length=MAX_NAMES)


class Running(Header):
    """The training begins."""

    total_steps: Step
    first_step: Step
    policy: PolicyName | None = None


class ActivityHeader(Header):
    """What the process does from now on: one of `activities.OF_TRAINER`."""

    activity: Annotated[Activity, Field(strict=False), AfterValidator(_activity)]


class StepsHeader(Header):
    """A block of steps, whose columns are the payload."""

    first_step: Step
    scale_health: Text | None = None


class EventData(Header):
    """The part of any event that the worker reads: a file, relative to the output folder."""

    signature: FileName | None = None


class EventWithFile(EventData):
    """The parts of an event about files that the worker reads."""

    file: FileName
    weights: FileName | None = None
    examples: FileName | None = None
    exports: Annotated[list[FileName], Field(max_length=MAX_EXPORTS)] | None = None


class TrainerEvent(Header):
    """An entry of the event log; its data is an `EventData`."""

    event: Annotated[EventType, Field(strict=False)]
    step: Step | None = None
    data: Object


class SummaryHeader(Header):
    """The parts of a summary that columns of the job hold, and that readers compute with."""

    steps: Step | None = None
    skipped: Step | None = None
    parameters: Step | None = None
    peak_memory_bytes: Step | None = None
    global_batch_size: Step | None = None
    final_loss: float | None = None
    final_loss_scale: float | None = None
    val_loss: float | None = None
    val_accuracy: float | None = None
    examples_per_s: float | None = None
    train_s: float | None = None
    metrics: dict[Any, Any] | None = None
    best: dict[Any, Any] | None = None
    stopped_early: dict[Any, Any] | None = None
    policy: Text | None = None
    engine: Text | None = None
    scale_health: Text | None = None


class Succeeded(Header):
    """The training ended well; its summary is a `Summary`."""

    summary: Object


class Failed(Header):
    """The training failed."""

    reason: Annotated[Reason, Field(strict=False)]
    message: Message


class Stopped(Header):
    """The training was stopped by SIGTERM."""


SCHEMAS: Final[dict[FrameType, type[Header]]] = {
    FrameType.READY: Ready,
    FrameType.RUNNING: Running,
    FrameType.ACTIVITY: ActivityHeader,
    FrameType.STEPS: StepsHeader,
    FrameType.EVENT: TrainerEvent,
    FrameType.SUCCEEDED: Succeeded,
    FrameType.FAILED: Failed,
    FrameType.STOPPED: Stopped,
}
