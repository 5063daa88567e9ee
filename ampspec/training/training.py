"""The length of the training, the guard against divergence, and where the job runs."""

from typing import Annotated, Final, Literal

from pydantic import Field

from ampspec.documents.base import SpecModel
from ampspec.training.ranks import MAX_RANKS, Elastic, Exchange


class Best(SpecModel):
    """The criterion for the best evaluation."""

    metric: str = Field(default="val_loss", pattern="^val_.", max_length=200)
    """`val_loss`, or `val_` and a metric of the task; for one of several outputs,
    `val_OUTPUT_METRIC`."""
    mode: Literal["auto", "min", "max"] = "auto"
    """Whether lower or higher values are better; auto: decided by the metric."""


class EarlyStopping(SpecModel):
    """Ends the training when evaluations no longer improve."""

    patience: int = Field(default=3, ge=1, le=1_000_000)
    """Number of consecutive evaluations without improvement after which the training ends."""
    min_delta: float = Field(default=0.0, ge=0, le=1e12)
    """A value counts as an improvement if it is better by more than this."""
    start_epoch: int = Field(default=0, ge=0, le=10_000_000)
    """Number of initial epochs whose evaluations are ignored."""


ExportFormat = Literal["saved_model", "onnx"]


class Train(SpecModel):
    """The length of the training, evaluation and checkpoints."""

    epochs: int = Field(default=1, ge=1, le=10_000_000)
    steps: int | None = Field(default=None, ge=1, le=2**53)
    """Train exactly this number of steps; overrides `epochs`."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    accumulate: int = Field(default=1, ge=1, le=65_536)
    eval_every_epochs: int = Field(default=1, ge=1, le=10_000_000)
    checkpoint_every_s: float | None = Field(default=60.0, gt=0)
    """Seconds between two checkpoints; null: save one only when the run stops or fails."""
    best: Best | None = None
    """The metric that selects the best evaluation. Null: `val_loss`, if `early_stopping` or `keep`
    needs one."""
    early_stopping: EarlyStopping | None = None
    """Null: train to the end."""
    keep: Literal["last", "best", "both"] = "last"
    """The weights of the trained model: the last ones, those of the best evaluation, or the last
    ones and, in a second file, the best ones."""
    evaluation_report: bool = Field(default=True, exclude_if=lambda is_written: is_written)
    """Whether `evaluation.json` says what the trained model gets right and wrong. It shows at most
    24 validation examples, also as pictures and texts."""
    export: Annotated[tuple[ExportFormat, ...], Field(strict=False, max_length=2)] = Field(
        default=(), exclude_if=lambda export: not export
    )
    """Other formats of the trained model: a TensorFlow `saved_model`, or `onnx`, where the model
    converts. Each is compared with the model; what does not convert is no error of the job."""

    @property
    def best_by(self) -> Best | None:
        """The criterion for the best evaluation; None if it is not needed."""
        is_needed = self.early_stopping is not None or self.keep != "last"
        return self.best or (Best() if is_needed else None)


class Guard(SpecModel):
    """Ends or recovers a run that no longer learns."""

    skip_nonfinite: bool = True
    """Whether a step with non-finite gradients is skipped; with a loss scale it always is."""
    max_consecutive_skips: int = Field(default=200, ge=1, le=2**31 - 1)
    """Maximum number of consecutive skipped steps; without a finite check, of non-finite steps."""
    max_skipped_share: float = Field(default=0.5, gt=0, le=1)
    """A run fails at its end if it has skipped more than this share of its steps, since it has not
    learned from most of its data. 1: only if it has skipped all steps."""
    on_exceeded: Literal["fail", "rollback", "float32"] = "fail"
    keep_state_every_steps: int = Field(default=500, ge=1, le=2**53)
    """Steps between two states kept for a rollback; initially also after 1, 2, 4, 8, … steps."""


class Diagnostics(SpecModel):
    """Optional checks that cost time."""

    repeat_step_every: int | None = Field(default=None, ge=1, le=2**53)
    """Interval in steps at which a step is repeated twice from the same state, to detect silent
    hardware errors; a difference is reported as an event. Null: never."""


QueueName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
"""Lower-case letters, digits, dots, dashes."""


class Profile(SpecModel):
    """Profiles some steps: where their time goes, and which share is spent in 16-bit precision."""

    start: int = Field(default=10, ge=0, le=2**53)
    """The first profiled step. The first two steps of an attempt are never profiled."""
    steps: int = Field(default=10, ge=1, le=200)


class Runtime(SpecModel):
    """Where and how the job runs."""

    queue: QueueName | None = None
    """Only workers that serve this queue may claim the job; null: chosen by `device`."""
    priority: int = Field(default=5, ge=0, le=9)
    """The priority among the waiting jobs of a project; a point equals six hours of waiting."""
    max_attempts: int = Field(default=3, ge=1, le=100)
    """Maximum number of attempts that may fail for a reason that allows a retry."""
    timeout_s: float | None = Field(default=None, gt=0, le=10 * 365 * 86_400)
    """Total seconds that the job may run, over all attempts; null: no limit."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    engine: Literal["auto", "graph", "xla_step", "xla_loop"] = "auto"
    workers: int = Field(default=1, ge=1, le=MAX_RANKS, exclude_if=lambda workers: workers == 1)
    """Number of machines that train the job together, each with `devices` ranks."""
    devices: int = Field(default=1, ge=1, le=MAX_RANKS)
    """Number of ranks on each machine, processes with one device each. In a step each rank trains
    on `data.batch_size` examples, `train.accumulate` times."""
    elastic: Elastic | None = Field(default=None, exclude_if=lambda elastic: elastic is None)
    """Null: an attempt always has `workers` × `devices` ranks. With fewer or more ranks each
    accumulates over more or fewer micro-batches, so that the global batch stays the same."""
    exchange: Exchange = Field(
        default=Exchange(), exclude_if=lambda exchange: exchange == Exchange()
    )
    profile: Profile | None = Field(default=None, exclude_if=lambda profile: profile is None)
    """Null: only on demand."""

    @property
    def ranks(self) -> int:
        """The number of ranks: `workers` × `devices`."""
        return self.workers * self.devices

    def possible_ranks(self, accumulate: int) -> tuple[int, ...]:
        """The numbers of ranks with which an attempt may run, ascending.

        Each must have the same number of micro-batches in a step, `ranks` × `accumulate` in all.
        """
        if self.elastic is None:
            return (self.ranks,)
        micro_batches = self.ranks * accumulate
        rank_counts = range(self.elastic.min, self.elastic.max + 1)
        return tuple(number for number in rank_counts if micro_batches % number == 0)


LabelKey = Annotated[str, Field(min_length=1, max_length=64)]
LabelValue = Annotated[str, Field(max_length=256)]
MAX_LABELS: Final = 64
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_LABELS)]
