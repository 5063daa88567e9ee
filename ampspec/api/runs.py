"""Tracked runs: the bodies of uploads and of the end of a run, and the response to an upload."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from ampspec.api.base import AnyState, ApiModel
from ampspec.api.job.jobs import RequestModel
from ampspec.documents.json_limits import check_json
from ampspec.jobs.tracked import COLUMN_NAME

MAX_ENTRIES: Final = 1000
MAX_STEPS: Final = 16_384
"""Steps of an upload."""
MAX_COLUMNS: Final = 64
"""Columns of an entry; a run may have more (store.jobs.tracked_runs)."""
MAX_STEP: Final = 2**53

ColumnName = Annotated[str, Field(pattern=f"^{COLUMN_NAME.pattern}$")]
NonFinite = Literal["NaN", "Infinity", "-Infinity"]
Value = bool | int | float | NonFinite | None
"""A number, the name of a non-finite one, or None for an empty cell."""
FiniteOrName = float | NonFinite
ScaleHealthName = Literal[
    "fixed",
    "pinned at the floor",
    "pinned at the cap",
    "warming up",
    "oscillating",
    "steady",
]
"""The values of `ampspec.telemetry.scale_health.ScaleHealth`, whose module loads NumPy."""
Step = Annotated[int, Field(ge=0, le=MAX_STEP)]
Entries = Annotated[int, Field(ge=0, le=2**53)]


class RunSteps(RequestModel):
    """Ascending steps, as `columns` or as `packed`."""

    type: Literal["steps"]
    first_step: Step
    columns: dict[ColumnName, Annotated[list[Value], Field(max_length=MAX_STEPS)]] | None = Field(
        default=None,
        max_length=MAX_COLUMNS,
        description="One list a column, all of one length: `loss`, `loss_scale`, `skipped`, "
        "`grad_norm`, `learning_rate`, `step_time_s`, `examples`, and named extras; `null` is an "
        "empty cell. With a column `step`, its numbers, which ascend from `first_step` on, are "
        "those of the steps; without it the steps are consecutive.",
    )
    packed: str | None = Field(
        default=None,
        max_length=400_000,
        description="The columns, encoded by `ampspec.telemetry.steps.array_codec`, in Base64.",
    )
    scale_health: ScaleHealthName | None = Field(
        default=None, description="The health of the loss scale after these steps."
    )


class RunEvent(RequestModel):
    """An entry of the event log."""

    type: Literal["event"]
    event: Literal["started", "epoch", "evaluation", "warning", "overflow", "scale_growth"]
    step: Step | None = None
    data: Annotated[dict[str, Any], AfterValidator(check_json)] = Field(
        default_factory=dict, max_length=256
    )


class RunLog(RequestModel):
    """A piece of the program's output."""

    type: Literal["log"]
    stream: Literal["stdout", "stderr"] = "stdout"
    text: Annotated[str, Field(max_length=65_536)]


Entry = Annotated[RunSteps | RunEvent | RunLog, Field(discriminator="type")]


class RunUpload(RequestModel):
    """Telemetry of a tracked run. Without entries it only renews the lease."""

    first_entry: Entries = Field(
        default=0,
        description="The number of the first entry: how many entries all uploads before it hold. "
        "Entries that are stored already are skipped.",
    )
    entries: list[Entry] = Field(default_factory=list, max_length=MAX_ENTRIES)
    total_steps: Annotated[int, Field(ge=1, le=MAX_STEP)] | None = Field(
        default=None, description="The expected number of steps, if it is new or has changed."
    )


class RunDropped(RequestModel):
    """How much a program has logged that is not stored; events of the run say what and why."""

    values: Annotated[int, Field(ge=0, le=MAX_STEP)] = 0
    steps: Annotated[int, Field(ge=0, le=MAX_STEP)] = 0
    events_and_logs: Annotated[int, Field(ge=0, le=MAX_STEP)] = 0


class RunResult(RequestModel):
    """The results of a tracked run, as far as they are known."""

    final_loss: FiniteOrName | None = None
    final_loss_scale: FiniteOrName | None = None
    val_loss: FiniteOrName | None = None
    val_accuracy: FiniteOrName | None = None
    parameters: Annotated[int, Field(ge=0, le=MAX_STEP)] | None = None
    peak_memory_bytes: Annotated[int, Field(ge=0, le=MAX_STEP)] | None = None
    dropped: RunDropped | None = None
    renumbered_steps: Annotated[int, Field(ge=0, le=MAX_STEP)] | None = Field(
        default=None,
        description="How many steps have another number than the program gave them; it is in the "
        "column `logged_step`.",
    )


class RunEnd(RequestModel):
    """The end of a tracked run."""

    state: Literal["succeeded", "failed", "cancelled"]
    entries: Entries = Field(description="How many entries were sent; all of them must be stored.")
    message: Annotated[str, Field(max_length=2000)] | None = Field(
        default=None, description="Why it failed or was cancelled."
    )
    summary: RunResult = RunResult()


class RunStatus(ApiModel):
    """The state of a tracked run after an upload."""

    entries: int = Field(description="How many entries are stored: the next `first_entry`.")
    step: int = Field(description="The step after the last stored one.")
    state: AnyState
    requested: str | None = Field(
        description="`cancel`: a user asks the program to stop and to finish the run."
    )
