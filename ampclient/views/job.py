"""A job, its last values, and what is left of it when it succeeded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Self, get_type_hints

from ampclient import formats, html
from ampclient.errors import SpecNotLoaded
from ampclient.views.view import Reader, View, count, number, optional, total
from ampcore.spec import State


class UnknownState(str):
    """A state that only a newer server knows, as text; answers what a State does."""

    is_active: ClassVar = False
    is_terminal: bool

    def __new__(cls, text: str, *, is_terminal: bool = False) -> Self:
        """The state of that name, and whether a job in it has ended."""
        state = super().__new__(cls, text)
        state.is_terminal = is_terminal
        return state


def state_of(text: str) -> State | UnknownState:
    """The state of that name."""
    return State(text) if text in list(State) else UnknownState(text)


@dataclass(frozen=True, kw_only=True)
class Latest(View):
    """Values of the last step that is stored; `skipped` counts all skipped steps so far."""

    loss: float
    loss_scale: float
    grad_norm: float
    learning_rate: float
    examples_per_s: float
    skipped: int

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """Every value but the count may be non-finite."""
        names = ("loss", "loss_scale", "grad_norm", "learning_rate", "examples_per_s")
        return {**dict.fromkeys(names, number), "skipped": count}


@dataclass(frozen=True, kw_only=True)
class Summary(View):
    """What the steps of a job add up to so far, and how one that succeeded ended.

    What is None is not known yet; `val_*` stay so without validation data. Of the steps each
    counts once: `applied_steps` of them were not `skipped`, while `attempted_steps` counts those,
    too, that were done again from a checkpoint. `skipped_s` and `repeated_s` are the seconds lost
    to both. `best_loss` is the least finite one. `examples_per_s`, once the job has succeeded,
    leaves the first block out, which holds the compilation, if there are more.
    """

    steps: int = 0
    skipped: int = 0
    skipped_share: float = 0.0
    applied_steps: int = 0
    attempted_steps: int = 0
    repeated_steps: int = 0
    steps_s: float = 0.0
    skipped_s: float = 0.0
    repeated_s: float = 0.0
    last_loss: float | None = None
    best_loss: float | None = None
    loss_scale: float | None = None
    last_examples_per_s: float | None = None
    median_examples_per_s: float | None = None
    final_loss: float | None = None
    final_loss_scale: float | None = None
    val_loss: float | None = None
    val_accuracy: float | None = None
    examples_per_s: float | None = None
    parameters: int | None = None
    train_s: float | None = None
    weights_digest: str | None = None
    model_file: str | None = None
    peak_memory_bytes: int | None = None
    policy: str | None = None
    engine: str | None = None
    scale_health: str | None = None

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """Every measured value may be non-finite."""
        readers = {int: count, float: total, float | None: optional(number)}
        types = get_type_hints(cls)
        return {name: readers[types[name]] for name in types if types[name] in readers}


@dataclass(frozen=True, kw_only=True)
class JobView(View):
    """A job as it was when the server answered. Times are in UTC."""

    id: str
    name: str
    project: str
    state: State | UnknownState
    reason: str | None
    message: str | None
    waiting: str | None = None
    """Why a queued job does not run yet, in one sentence."""
    priority: int
    queue: str
    attempt: int
    max_attempts: int
    failures: int
    """Attempts that failed since the job was posted, or retried by a person."""
    step: int
    total_steps: int | None
    progress: float | None
    policy: str
    model: str
    labels: dict[str, str]
    worker_id: str | None
    latest: Latest | None
    summary: Summary | None
    loss_scale_mode: str | None = None
    """What the spec says of the loss scale."""
    examples_per_step: int | None = None
    """By the spec: the batch, times `accumulate`."""
    created_by: str | None = None
    """The name of the token that posted it."""
    cloned_from: str | None = None
    request_id: str | None = None
    created_at: datetime
    not_before: datetime | None = None
    """A job that failed waits until then before it is tried again."""
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    unreadable: Sequence[str] = ()
    """Fields that the server could not read in its database; they are None or empty here."""

    def __post_init__(self) -> None:
        if isinstance(self.state, UnknownState) and self.finished_at is not None:
            ended = UnknownState(self.state, is_terminal=True)
            object.__setattr__(self, "state", ended)

    @property
    def note(self) -> str | None:
        """That a part of it cannot be read."""
        return f"unreadable: {', '.join(self.unreadable)}" if self.unreadable else None

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The normalised spec. Lists leave it out, unless they are asked for it by `fields`."""
        spec: dict[str, Any] | None = self.document.get("spec")
        return self._missing_spec() if spec is None else spec

    def _missing_spec(self) -> dict[str, Any]:
        raise SpecNotLoaded(
            "A list leaves the spec of its jobs out: ask for it with list(fields='spec'), or for "
            "this job alone with refresh()."
        )

    @property
    def skipped(self) -> int:
        """Steps skipped so far."""
        known = self.summary or self.latest
        return known.skipped if known is not None else 0

    @property
    def examples_per_s(self) -> float | None:
        """The mean of the whole training once it succeeded, till then that of the last block."""
        if self.summary is not None and self.summary.examples_per_s is not None:
            return self.summary.examples_per_s
        return self.latest.examples_per_s if self.latest is not None else None

    _html_head_: ClassVar = (
        *("name", "id", "state", "policy", "model", "step", "loss", "loss scale", "skipped"),
        *("examples/s", "message"),
    )

    def _html_row_(self) -> Sequence[object]:
        latest = self.latest
        return (
            *(self.name, self.id, self.state, self.policy, self.model),
            formats.steps(self.step, self.total_steps),
            formats.number(latest.loss if latest else None),
            formats.loss_scale(latest.loss_scale if latest else None),
            self.skipped,
            formats.rate(self.examples_per_s),
            self.note or self.message or self.waiting,
        )

    def _repr_html_(self) -> str:
        """Its row of a list, upright."""
        pairs = zip(self._html_head_, self._html_row_(), strict=True)
        return html.facts(pairs)

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The parts, the state and the times."""
        return {
            "state": state_of,
            "latest": optional(Latest.from_json),
            "summary": optional(Summary.from_json),
            "created_at": datetime.fromisoformat,
            "not_before": optional(datetime.fromisoformat),
            "started_at": optional(datetime.fromisoformat),
            "finished_at": optional(datetime.fromisoformat),
            "updated_at": datetime.fromisoformat,
        }
