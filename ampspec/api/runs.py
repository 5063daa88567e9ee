"""Tracked runs: the bodies of uploads and of the end of a run, and the response to an upload."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from ampspec.api.base import AnyState, ApiModel
from ampspec.api.job.jobs import RequestModel
from ampspec.documents.json_limits import check_json
from ampspec.jobs.tracked import COLUMN_NAME

MAX_ENTRIES: Final = 1000
MAX_STEPS: Final = 16_384
"""Maximum number of steps in an upload."""
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
        description="One list per column, all of the same length: `loss`, `loss_scale`, "
        "`skipped`, `grad_norm`, `learning_rate`, `step_time_s`, `examples`, and named extras; "
        "`null` is an empty cell. A column `step` holds the numbers of the steps, ascending from "
        "`first_step`; without it the steps are consecutive.",
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


class RunAttempt(RequestModel):
    """The program goes on from an earlier step: the stored steps from there on are replaced."""

    type: Literal["attempt"]
    first_step: Step = Field(
        description="The next step. If it is below the end of the stored steps, a new attempt "
        "begins: `attempt` still reads the steps of the earlier ones. Else nothing changes."
    )


Entry = Annotated[RunSteps | RunEvent | RunLog | RunAttempt, Field(discriminator="type")]


class RunEntries(RequestModel):
    """Telemetry of a tracked run. Without entries it only renews the lease."""

    first_entry: Entries = Field(
        default=0,
        description="The number of entries in all earlier uploads. Entries that are already "
        "stored are skipped.",
    )
    entries: list[Entry] = Field(default_factory=list, max_length=MAX_ENTRIES)
    total_steps: Annotated[int, Field(ge=1, le=MAX_STEP)] | None = Field(
        default=None, description="The expected number of steps, if it is new or has changed."
    )


class RunDropped(RequestModel):
    """Counts of logged data that was not stored; events of the run give the reasons."""

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
        description="The number of steps that were renumbered; the column `logged_step` holds the "
        "numbers logged by the program.",
    )


class RunEnd(RequestModel):
    """The end of a tracked run."""

    state: Literal["succeeded", "failed", "cancelled"]
    entries: Entries = Field(description="The number of entries sent; all must be stored.")
    message: Annotated[str, Field(max_length=2000)] | None = Field(
        default=None, description="Why it failed or was cancelled."
    )
    summary: RunResult = RunResult()


class RunStatus(ApiModel):
    """The state of a tracked run after an upload."""

    entries: int = Field(description="The number of stored entries: the next `first_entry`.")
    step: int = Field(description="The step after the last stored one.")
    first_step: int | None = Field(
        default=None,
        description="The first stored step, in the response to `resume`; null without one.",
    )
    state: AnyState
    requested: str | None = Field(
        description="`cancel`: a user asked the program to stop and finish the run."
    )
