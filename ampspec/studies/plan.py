"""The interface of all kinds of studies: the context, planned jobs and their results."""

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
"""A float32 job that skips more than this share of its steps is not a reference."""
DIVERGED: Final = (Reason.NON_FINITE_LOSS, Reason.NON_FINITE_RESULT, Reason.SKIP_BUDGET_EXCEEDED)
"""The failure reasons of jobs that diverged: their policy is not as good as float32."""

Options = TypeVar("Options", bound=StudyOptions)


class NoAnswer(Exception):
    """The results give no answer; the message says why."""


@dataclass(frozen=True)
class StudyContext(Generic[Options]):
    """The spec, options and devices of a study, as they were when it was created."""

    document: Mapping[str, Any]
    """The submitted spec, with the dataset pinned to a version."""
    options: Options
    policies: tuple[str, ...] = ()
    """The policies to study, excluding the reference."""
    device: str | None = None
    """The kind of device that its jobs probably run on."""
    device_memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """The memory limit of a job's process on a worker; None: not known."""
    measured_batches: Mapping[str, int] = field(default_factory=dict)
    """By policy: the largest batch of an earlier capacity study."""
    planned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By key: the changes of the jobs that were planned in earlier rounds, in order."""

    @property
    def step_memory_bytes(self) -> int | None:
        """The memory available to a training step on the device; None: not known.

        On a CPU, the limit of the job's process counts, minus the memory of its libraries.
        """
        sizes = [self.device_memory_bytes]
        if self.device == "cpu" and self.memory_limit_bytes is not None:
            sizes.append(max(0, self.memory_limit_bytes - PROCESS_BYTES))
        return min((size for size in sizes if size is not None), default=None)

    @cached_property
    def spec(self) -> JobSpec:
        """The parsed spec."""
        return JobSpec.parse(dict(self.document))


@dataclass(frozen=True)
class PlannedJob:
    """A job that a study needs; the key names it within the study."""

    key: str
    changes: Mapping[str, Any]
    """Changes to the study's spec, by dotted path."""
    extends: str | None = None
    """The key of the job whose last checkpoint it starts from."""

    def document(self, context: StudyContext[Any], study_id: str) -> dict[str, Any]:
        """The spec of the job: with labels that name the study and the key.

        The document of a study created by an older version has no `data.split_seed`; its further
        jobs are split as the earlier ones.
        """
        document = with_split_seed(with_values(dict(context.document), self.changes))
        labels = {**(document.get("labels") or {}), STUDY_LABEL: study_id, KEY_LABEL: self.key}
        name = f"{context.spec.name[: MAX_NAME - len(self.key) - 1]} {self.key}"
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
    """The losses of its layers in its number format, for a job with range samples."""
    train_examples: int | None = None
    examples: ExampleResults | None = None
    """The metrics of each validation example, if the job has stored them."""
    split_seed: int | None = None
    """The seed that selected its validation rows; None if there is none, or it is not known."""
    memory: MemoryModel | None = None
    """The memory model of its layers; None if the job did not build them."""

    @property
    def succeeded(self) -> bool:
        """Whether it trained to its end."""
        return self.state is State.SUCCEEDED

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether it needed more memory than available."""
        return self.state is State.FAILED and self.reason == Reason.OUT_OF_MEMORY

    @property
    def crashed(self) -> bool:
        """Whether a signal of unknown origin ended it, possibly for lack of memory."""
        return self.state is State.FAILED and self.reason == Reason.PROCESS_KILLED

    @property
    def had_enough_memory(self) -> bool:
        """Whether it trained, even if it diverged."""
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
    """The maximum cost of a study."""

    jobs: int
    steps: int | None
    """The steps of all jobs together; None: known only once the data is read."""


class StudyKind(Protocol[Options]):
    """One kind of study. Its functions are pure: the same results give the same jobs."""

    decided_by_results: bool
    """Whether further jobs depend on results."""
    allows_invalid_jobs: bool
    """Whether the study continues if the spec of one of its jobs is invalid."""
    needs_device: bool
    """Whether jobs are queued only after a worker has reported its devices."""

    compares_examples: bool
    """Whether it compares the jobs by validation example."""

    def policies(self, options: Options, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """The policies to study on these devices; the first device is preferred."""

    def limit(self, context: StudyContext[Options]) -> Limit | None:
        """The maximum cost of the study; None: it depends on the results."""

    def check(self, context: StudyContext[Options]) -> Sequence[Problem]:
        """Problems of the options that depend on the spec; pointers are into the request."""

    def jobs(self, context: StudyContext[Options], results: Results) -> Sequence[PlannedJob]:
        """All jobs known to be needed, including ended ones.

        A planned key stays planned in every later call, with the same changes. A kind whose jobs
        depend on the order of results follows `context.planned`. Raises NoAnswer
        if further jobs would change nothing.
        """

    def answer(self, context: StudyContext[Options], results: Results) -> Answer:
        """The answer, once all planned jobs have ended. Raises NoAnswer."""
