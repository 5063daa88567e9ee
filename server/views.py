"""What the answers look like: one model for each, which OpenAPI tells in full."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy import Row

from ampcore.series import COLUMNS
from ampcore.spec import Reason, State
from store import tables

log = logging.getLogger(__name__)

Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""A number as JSON writes it; the non-finite ones are strings."""

# A newer worker or server may write codes that this version does not know: these are told as text.
OpenState = Annotated[State | str, Field(union_mode="left_to_right")]
OpenReason = Annotated[Reason | str, Field(union_mode="left_to_right")]

BLANKS: Final[tuple[Any, ...]] = (None, {}, [], "", 0)
"""What stands in place of a value that cannot be read: the first that the field may have."""


class View(BaseModel):
    """An answer, read off a row."""

    model_config = ConfigDict(from_attributes=True, ser_json_inf_nan="strings")


class Record(View):
    """What is read off a row that may be damaged, or written by a newer version."""

    unreadable: list[str] = Field(
        default_factory=list,
        exclude_if=lambda names: not names,
        description="The fields whose stored values cannot be read; they are null or empty here. "
        "Left out where there are none.",
    )

    @classmethod
    def read(cls, row: Any, told: Mapping[str, Any] | None = None) -> Self:
        """The record of a row, with the fields `told` instead of the row's own.

        What cannot be read is left blank, named in `unreadable`, and logged as an error.
        """
        try:
            return cls.model_validate(_values(cls, row) | dict(told) if told else row)
        except ValidationError as error:
            names = sorted({str(mistake["loc"][0]) for mistake in error.errors()})
        _report_unreadable(cls.__name__, _name_of(row), ", ".join(names))
        blanks = {name: _blank(cls, name) for name in names}
        return cls.model_validate(
            _values(cls, row) | dict(told or {}) | blanks | {"unreadable": names}
        )


def _values(model: type[Record], row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in model.model_fields if hasattr(row, name)}


def _blank(model: type[Record], name: str) -> Any:
    annotation: Any = model.model_fields[name].annotation
    field = TypeAdapter(annotation)
    for blank in BLANKS:
        with suppress(ValidationError):
            return field.validate_python(blank)
    raise TypeError(f"{model.__name__}.{name} has no blank value")


def _name_of(row: Any) -> str:
    """What a person finds a row by."""
    parts = (getattr(row, name, None) for name in ("job_id", "id", "seq", "attempt", "path"))
    return " ".join(str(part) for part in parts if part is not None)


@lru_cache(maxsize=1000)  # once for each row: it may be asked for every second
def _report_unreadable(model: str, row: str, names: str) -> None:
    log.error("the row of the %s %s cannot be read in full: %s", model, row, names)


class Latest(View):
    """The values of the last step stored."""

    loss: Number | None = None
    loss_scale: Number | None = None
    grad_norm: Number | None = None
    learning_rate: Number | None = None
    examples_per_s: Number | None = None
    skipped: int | None = Field(default=None, description="Steps skipped so far.")


class Summary(View):
    """What the steps of a job add up to so far, and what is left of one that succeeded.

    What is null is not known, or not known yet.
    """

    steps: int | None = Field(
        default=None, description="Those that led to where the job is now, each once."
    )
    skipped: int | None = None
    skipped_share: float | None = Field(default=None, description="Of those steps, from 0 to 1.")
    applied_steps: int | None = Field(default=None, description="Those that were not skipped.")
    attempted_steps: int | None = Field(
        default=None, description="All steps of all attempts, those done again included."
    )
    repeated_steps: int | None = Field(
        default=None, description="Steps behind a checkpoint that a later attempt went back to."
    )
    steps_s: float | None = Field(default=None, description="Seconds that `steps` took.")
    skipped_s: float | None = Field(default=None, description="Seconds lost to skipped steps.")
    repeated_s: float | None = Field(default=None, description="Seconds lost to repeated steps.")
    last_loss: Number | None = None
    best_loss: Number | None = Field(default=None, description="The least finite one.")
    loss_scale: Number | None = Field(default=None, description="Of the last step.")
    last_examples_per_s: Number | None = None
    median_examples_per_s: Number | None = Field(
        default=None, description="What half of the steps reached, to about a hundredth."
    )
    final_loss: Number | None = None
    final_loss_scale: Number | None = None
    val_loss: Number | None = None
    val_accuracy: Number | None = None
    examples_per_s: Number | None = Field(
        default=None, description="The mean of the whole training, of a job that succeeded."
    )
    parameters: int | None = None
    train_s: Number | None = Field(
        default=None, description="Of the last attempt, of a job that succeeded."
    )
    peak_memory_bytes: int | None = None
    policy: str | None = Field(default=None, description="The one that trained: never `auto`.")
    engine: str | None = None
    scale_health: str | None = Field(default=None, description="A word for the loss scale.")
    weights_digest: str | None = None
    model_file: str | None = None


class ListedJob(Record):
    """A job as it stands now, in a list."""

    id: str
    name: str
    project: str
    state: OpenState
    reason: OpenReason | None = Field(description="Why it is in this state, for programs.")
    message: str | None = Field(description="Why it is in this state, for people.")
    waiting: str | None = Field(
        description="Why a queued job does not run yet; told only where one job is read."
    )
    priority: int = Field(description="From 0 to 9: the highest goes first.")
    queue: str = Field(description="Only workers that serve it may take the job.")
    attempt: int = Field(description="How many times a worker has taken it.")
    max_attempts: int
    failures: int = Field(description="Attempts that failed since it was posted, or retried.")
    step: int = Field(description="Steps done so far.")
    total_steps: int | None = Field(description="Known once the job runs.")
    progress: float | None = Field(description="From 0 to 1.")
    policy: str
    model: str
    labels: dict[str, str]
    worker_id: str | None
    latest: Latest | None
    summary: Summary | None
    loss_scale_mode: str | None = Field(description="What the spec says of the loss scale.")
    examples_per_step: int | None = Field(description="By the spec: the batch, times `accumulate`.")
    spec: dict[str, Any] | None = Field(
        default=None, description="The normalised spec; left out unless `fields=spec` asks for it."
    )
    created_by: str | None = Field(description="The name of the token that posted it.")
    cloned_from: str | None = Field(description="The id of the job that it is a clone of.")
    request_id: str | None = Field(description="The X-Request-ID with which it was posted.")
    created_at: datetime
    not_before: datetime | None = Field(description="A job that failed waits until then.")
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime

    @classmethod
    def listed(cls, row: Row[Any], spec: dict[str, Any] | None) -> Self:
        """The job of a row of `store.search.page`."""
        told = {"waiting": None, "spec": spec, **_told_by_steps(row)}
        if hasattr(row, "spec"):  # a row that could be read in part only
            return cls.read(row, told | _told_by_spec(row.spec))
        return cls.read(row, told | _told(row.loss_scale_mode, row.batch_size, row.accumulate))


class Job(ListedJob):
    """A job as it stands now."""

    spec: dict[str, Any] = Field(description="The normalised spec: every default written out.")

    @classmethod
    def of(cls, row: tables.Job | Row[Any], waiting: str | None = None) -> Self:
        """The job of a row."""
        told = {"waiting": waiting, **_told_by_spec(row.spec), **_told_by_steps(row)}
        return cls.read(row, told)


def _told_by_spec(spec: Any) -> dict[str, Any]:
    """What a list tells of a spec without the spec."""
    parts = spec if isinstance(spec, dict) else {}
    scale, data, train = (parts.get(name) or {} for name in ("loss_scale", "data", "train"))
    return _told(scale.get("mode"), data.get("batch_size"), train.get("accumulate"))


def _told(loss_scale_mode: Any, batch_size: Any, accumulate: Any) -> dict[str, Any]:
    """Numbers may come as text; None where a damaged spec has none."""
    examples = None
    with suppress(TypeError, ValueError):
        examples = int(batch_size) * int(accumulate or 1)
    return {"loss_scale_mode": loss_scale_mode, "examples_per_step": examples}


def _told_by_steps(row: tables.Job | Row[Any]) -> dict[str, Any]:
    return {"progress": _progress(row), "summary": _summary(row)}


def _progress(row: tables.Job | Row[Any]) -> float | None:
    done, total = row.step, row.total_steps
    if not total or not isinstance(done, int) or not isinstance(total, int):
        return None
    return min(done / total, 1.0)


def _summary(row: tables.Job | Row[Any]) -> Any:
    """What the blocks add up to, what the last one says, and, at the end, what the trainer says."""
    if row.totals is None:
        return row.summary
    for part in (row.totals, row.summary):
        if not isinstance(part, dict | NoneType):
            return part  # no object: told as unreadable
    latest = row.latest if isinstance(row.latest, dict) else {}
    last = {
        "last_loss": latest.get("loss"),
        "loss_scale": latest.get("loss_scale"),
        "last_examples_per_s": latest.get("examples_per_s"),
    }
    return {**row.totals, **last, **(row.summary or {})}


class JobPage(View):
    """Some jobs in the order asked for; `next_cursor` leads to the ones behind them.

    A page may hold fewer jobs than `limit`, and `next_cursor` still lead on.
    """

    items: list[ListedJob]
    next_cursor: str | None


class Finding(View):
    """Something worth knowing about a valid spec."""

    code: str = Field(description="What was found, for programs.")
    severity: Literal["info", "warning", "error"] = Field(
        description="error: the job cannot run as it is; warning: it will disappoint."
    )
    pointer: str = Field(description="The JSON pointer of the part of the spec to change.")
    message: str = Field(description="What was found, for people.")
    data: dict[str, Any] = Field(description="The numbers behind it.")


class Memory(View):
    """Bytes at the peak of a training step, estimated; without the data and the libraries."""

    weights: int
    casts: int = Field(description="The weights once more in the compute dtype.")
    gradients: int
    optimizer: int = Field(description="Its slots: momentum, second moment.")
    ema: int
    activations: int = Field(description="What a batch keeps for its backward pass.")
    total: int


class Figures(View):
    """The size of a job, from its layers."""

    policy: str = Field(description="`auto` is settled on a device of an online worker.")
    parameters: int
    trainable_parameters: int
    networks: dict[str, int] = Field(description="The parameters of each network.")
    flops_per_step: int = Field(
        description="Of matrix products: about 3 × the forward pass × batch_size × accumulate."
    )
    share_in_16_bit: float = Field(description="Of those FLOPs, from 0 to 1.")
    memory: dict[str, Memory] = Field(description="By policy: float32, and the one chosen.")


class Layer(View):
    """One layer; shapes and counts are of one example."""

    network: str
    path: str = Field(description="What `precision.overrides` match.")
    kind: str
    output_shape: list[int]
    parameters: int
    multiply_adds: int
    compute_dtype: str
    variable_dtype: str


class Validation(View):
    """A spec that would be accepted, and what the preflight says of it."""

    spec: dict[str, Any]
    findings: list[Finding]
    figures: Figures | None = Field(description="null: known when the job starts.")
    layers: list[Layer] = Field(description="Empty: known when the job starts.")


class SkippedSteps(View):
    """The skipped steps of a range: the first of them, and how many there are."""

    total: int
    steps: list[int]


class ScaleChanges(View):
    """The steps of a range that used another loss scale than the step before; the first of them."""

    total: int
    step: list[int]
    before: list[Number]
    after: list[Number]
    column: list[str] = Field(description="Whose scale: `loss_scale`, `loss_scale/generator`.")


class Stretch(View):
    """Steps s with `start` ≤ s < `end`, as one attempt made them."""

    attempt: int
    start: int
    end: int


class Steps(View):
    """Columns of values: one list a column, all of one length."""

    data: dict[str, list[bool | int | Number]] = Field(
        description=f"step and the columns asked for: {', '.join(COLUMNS)}, and named extras. "
        "Where a point holds several steps: its first `step`, their `count`, how many were "
        "`skipped`, and of each other column `loss.min`, `.max`, `.first`, `.last` and `.mean`."
    )
    steps_per_point: int = Field(description="1: every step is a point of its own.")
    skipped_steps: SkippedSteps | None = Field(default=None, description="With `max_points`.")
    scale_changes: ScaleChanges | None = Field(default=None, description="With `max_points`.")
    attempts: list[Stretch] = Field(
        description="Which attempt's steps are told, of the whole job: a stretch that ends "
        "earlier than before was superseded from there on, and is to be read again."
    )
    next: int | None = Field(
        description="The last step told here, or the `after` of the request: ask on from it."
    )
    more: bool = Field(description="Further steps are stored already.")


class Event(Record):
    """An entry of a job's ledger."""

    seq: int
    type: str
    step: int | None
    attempt: int
    created_at: datetime
    data: dict[str, Any]


class EventPage(View):
    """Some events in order; ask on with `after` = `next`, or `before` = the first one's `seq`."""

    items: list[Event]
    next: int
    more: bool


class Attempt(Record):
    """One time that a worker took a job."""

    attempt: int
    worker_id: str
    outcome: str | None = Field(description="How it ended; null while it lasts.")
    reason: OpenReason | None
    message: str | None
    waited_s: float = Field(description="How long the job was in the queue before.")
    first_step: int | None = Field(description="Where it began: 0, or behind a checkpoint.")
    started_at: datetime
    finished_at: datetime | None


class AttemptList(View):
    """Every attempt at a job, the first one first."""

    items: list[Attempt]


class LogEntry(Record):
    """A piece of what a job's processes printed."""

    seq: int
    attempt: int
    stream: str = Field(description="stdout or stderr.")
    text: str
    created_at: datetime


class LogPage(View):
    """Some pieces in order; ask on with `after` = `next`, or `before` = the first one's `seq`."""

    items: list[LogEntry]
    next: int
    more: bool


class Artifact(Record):
    """A file that a job has left."""

    path: str = Field(description="Its name below the job, with slashes.")
    kind: str = Field(description="What it is: checkpoint, model, report.")
    step: int | None = Field(description="The steps done when it was written, of a checkpoint.")
    attempt: int
    size_bytes: int
    sha256: str
    created_at: datetime


class ArtifactList(View):
    """Every file of a job, in the order in which they came."""

    items: list[Artifact]


class Worker(Record):
    """A worker process and what it runs on."""

    id: str
    hostname: str
    pid: int
    slots: int
    state: Literal["online", "lost", "stopped"]
    draining: bool = Field(description="It was asked to give its jobs back and to end.")
    version: str
    queues: list[str] = Field(description="It takes the jobs of these queues alone.")
    hardware: dict[str, Any] | None = Field(description="As its trainer process saw it.")
    usage: dict[str, Any] | None = Field(description="What it measures of itself now and then.")
    jobs: list[str] = Field(
        description="The ids of the jobs that it runs, of those that the token sees."
    )
    started_at: datetime
    last_seen_at: datetime

    @classmethod
    def of(cls, row: tables.Worker, state: str, jobs: list[str]) -> Self:
        """The worker of a row."""
        told = {"state": state, "jobs": jobs, "draining": row.drain_requested_at is not None}
        return cls.read(row, told)


class WorkerList(View):
    """Every worker, the newest first."""

    items: list[Worker]


class PartKind(View):
    """One kind of model, data or optimizer that a spec can name."""

    kind: str
    description: str
    schema_: dict[str, Any] = Field(alias="schema", description="JSON schema of the part.")


class PartKindList(View):
    """All kinds of one part of a spec."""

    items: list[PartKind]


class Policy(View):
    """One precision policy that a spec can name."""

    name: str
    compute_dtype: str | None = Field(description="null: settled on the worker's device.")
    variable_dtype: str | None
    loss_scale: str | None = Field(description="The mode that a spec gets when it names none.")


class PolicyList(View):
    """All precision policies."""

    items: list[Policy]


class Version(View):
    """What runs here."""

    version: str
    api: str
    schema_: str | None = Field(alias="schema", description="Revision of the database schema.")


class Health(View):
    """A yes."""

    status: Literal["alive", "ready"]


class ProblemDetail(View):
    """One mistake in a request: where (a JSON pointer), what was expected, what was received."""

    pointer: str
    code: str
    detail: str
    expected: str
    received: str | None = None
    suggestion: str | None = None


class Problem(View):
    """Why a request failed (RFC 9457); `code` is stable, for programs."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemDetail] | None = None
