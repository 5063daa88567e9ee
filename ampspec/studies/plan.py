"""What every kind of study works with: its question, the jobs it plans, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from ampspec.api.studies import Answer
from ampspec.api.study_requests import StudyOptions
from ampspec.data.stored_split import with_split_seed
from ampspec.documents.assignments import with_values
from ampspec.jobs import JobSpec, Problem, Reason, State
from ampspec.precision.devices import DeviceInfo
from ampspec.studies.bisect.layer_losses import LayerLoss
from ampspec.studies.capacity.memory_model import PROCESS_BYTES, MemoryModel
from ampspec.studies.precision.example_results import ExampleResults
from ampspec.telemetry.metrics import finite_metrics, metrics_of

MAX_NAME: Final = 200
STUDY_LABEL: Final = "study"
KEY_LABEL: Final = "study_job"

MAX_SKIPPED_SHARE: Final = 0.5
"""Float32 has no loss scale: a job in it that skips most of its steps is no reference."""
DIVERGED: Final = (Reason.NON_FINITE_LOSS, Reason.NON_FINITE_RESULT, Reason.SKIP_BUDGET_EXCEEDED)
"""The reasons of jobs whose numbers did not work out: their policy is not as good as float32."""

Options = TypeVar("Options", bound=StudyOptions)


class NoAnswer(Exception):
    """The results do not answer the question; the message says why."""


@dataclass(frozen=True)
class Question(Generic[Options]):
    """A study's question, as it was when the study was created."""

    document: Mapping[str, Any]
    """The spec as given, with the dataset pinned to a version."""
    options: Options
    policies: tuple[str, ...] = ()
    """The policies to study, without a reference to compare them with."""
    device: str | None = None
    """The kind of device that its jobs probably run on."""
    device_memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """How much memory the process of a job may allocate on a worker; None: not known."""
    measured_batches: Mapping[str, int] = field(default_factory=dict)
    """By policy: the largest batch that an earlier study of capacity has found."""
    planned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By key: the changes of the jobs that were planned in earlier rounds, in order."""

    @property
    def step_memory_bytes(self) -> int | None:
        """The memory that a training step may take on the device; None: not known.

        On a CPU the process of the job counts, too: what it may allocate besides its libraries.
        """
        sizes = [self.device_memory_bytes]
        if self.device == "cpu" and self.memory_limit_bytes is not None:
            sizes.append(max(0, self.memory_limit_bytes - PROCESS_BYTES))
        return min((size for size in sizes if size is not None), default=None)

    @cached_property
    def spec(self) -> JobSpec:
        """The spec of the question."""
        return JobSpec.parse(dict(self.document))


@dataclass(frozen=True)
class PlannedJob:
    """A job that a study needs; the key names it within the study."""

    key: str
    changes: Mapping[str, Any]
    """By dotted path: what differs from the study's spec."""
    extends: str | None = None
    """The key of the job whose last checkpoint it starts from."""

    def document(self, question: Question[Any], study_id: str) -> dict[str, Any]:
        """The spec of the job: with labels that name the study and the key.

        The document of a study that an older version has created has no `data.split_seed`: its jobs
        that are still to come are split as those before them.
        """
        document = with_split_seed(with_values(dict(question.document), self.changes))
        labels = {**(document.get("labels") or {}), STUDY_LABEL: study_id, KEY_LABEL: self.key}
        name = f"{question.spec.name[: MAX_NAME - len(self.key) - 1]} {self.key}"
        return {**document, "labels": labels, "name": name}


@dataclass(frozen=True)
class JobResult:
    """How a job of a study ended."""

    job_id: str
    """Empty if the job was refused."""
    state: State
    reason: str | None = None
    message: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The finite metrics of its last evaluation."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    ran_s: float | None = None
    """Seconds between its start and its end."""
    losses: Sequence[LayerLoss] = ()
    """What its layers lose in its number format, for a job that was planned with range samples."""
    train_examples: int | None = None
    examples: ExampleResults | None = None
    """The metrics of each validation example, if the job has stored them."""
    split_seed: int | None = None
    """What drew its validation rows; None if nothing did, or if it is not known."""
    memory: MemoryModel | None = None
    """Of its layers; None if the job did not build them."""

    @property
    def succeeded(self) -> bool:
        """Whether it trained to its end."""
        return self.state is State.SUCCEEDED

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether it needed more memory than there was."""
        return self.state is State.FAILED and self.reason == Reason.OUT_OF_MEMORY

    @property
    def crashed(self) -> bool:
        """Whether a signal ended it that nobody is known to have sent; too little memory may."""
        return self.state is State.FAILED and self.reason == Reason.PROCESS_KILLED

    @property
    def had_enough_memory(self) -> bool:
        """Whether it trained, even if its numbers did not work out."""
        return self.succeeded or self.reason in DIVERGED

    @property
    def skipped_share(self) -> float:
        """The share of its steps that were skipped, from 0 to 1; 0 if it is not known."""
        return self.number("skipped_share") or 0.0

    @classmethod
    def refused(cls, message: str) -> Self:
        """The result of a job that was not queued, since its spec is invalid."""
        return cls("", State.FAILED, message=message)

    def number(self, name: str) -> float | None:
        """A number of its summary; None if it is not known."""
        value = self.summary.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number else None  # type: ignore[arg-type]  # checked above

    def to_json(self) -> dict[str, Any]:
        """The result as it is stored."""
        losses = [loss.to_json() for loss in self.losses]
        values = {"metrics": dict(self.metrics), "summary": dict(self.summary), "losses": losses}
        examples = self.examples and self.examples.to_json()
        memory = self.memory and vars(self.memory)
        return {**vars(self), **values, "memory": memory, "examples": examples}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The result of a stored document."""
        names = ("reason", "message", "ran_s", "train_examples", "split_seed")
        plain_fields = {name: document.get(name) for name in names}
        memory, examples = document.get("memory"), document.get("examples")
        metrics = finite_metrics(metrics_of(document.get("metrics")))
        return cls(
            job_id=document["job_id"],
            state=State(document["state"]),
            metrics=metrics,
            summary=document.get("summary") or {},
            losses=[LayerLoss.from_json(loss) for loss in document.get("losses") or ()],
            memory=MemoryModel(**memory) if memory else None,
            examples=ExampleResults.from_json(examples) if examples else None,
            **plain_fields,
        )


Results = Mapping[str, JobResult]
"""The results of the jobs that have ended, by key."""


@dataclass(frozen=True)
class Limit:
    """The most that a study can need."""

    jobs: int
    steps: int | None
    """Of all jobs together; None: known only once the data is read."""


class StudyKind(Protocol[Options]):
    """One kind of study. Its functions are pure: the same results give the same jobs."""

    decided_by_results: bool
    """Whether results decide about further jobs."""
    allows_invalid_jobs: bool
    """Whether it goes on if the spec of one of its jobs is invalid."""
    needs_device: bool
    """Whether no job is queued before a worker has reported its devices."""

    compares_examples: bool
    """Whether it compares what jobs did with each validation example."""

    def policies(self, options: Options, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """The policies to study on these devices, the first one of which is the preferred."""

    def limit(self, question: Question[Options]) -> Limit | None:
        """How much work the study is at most; None: only the results will tell."""

    def check(self, question: Question[Options]) -> Sequence[Problem]:
        """The mistakes in the options that only the spec reveals; pointers into the request."""

    def jobs(self, question: Question[Options], results: Results) -> Sequence[PlannedJob]:
        """All jobs that are known to be needed, with those that have ended.

        A key that was planned once is planned in every later call, with the same changes. A kind
        whose jobs depend on the order of the results keeps to `question.planned`. Raises NoAnswer
        if further jobs would change nothing.
        """

    def answer(self, question: Question[Options], results: Results) -> Answer:
        """The answer, once all planned jobs have ended. Raises NoAnswer."""
