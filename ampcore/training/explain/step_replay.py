"""Replays a run up to the state before one of its steps, from the nearest earlier checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcore import checkpoint
from ampcore.checkpoint import Checkpoint
from ampcore.checkpoint.saver import CheckpointSaver
from ampcore.training.callback_buffer import CallbackBuffer, OnBlock
from ampcore.training.context import RunContext
from ampcore.training.run.counters import RunCounters
from ampcore.training.run.run import Run
from ampcore.training.step.loop import EngineName, engine_name
from ampcore.training.train_loop import train_block
from ampspec.errors import InvalidData
from ampspec.training.run import RunSpec, micro_batches

ShouldStop = Callable[[], bool]


class ReplayStopped(Exception):
    """The replay was asked to stop before it reached its step."""


@dataclass(frozen=True)
class ReplayCost:
    """What has to be repeated before a step can be looked at."""

    step: int
    first_step: int
    """The step that the replay starts at: that of a checkpoint, or 0."""
    seconds: float | None
    """The time of the repeated steps at the throughput of the run; None if it is unknown."""

    @property
    def steps(self) -> int:
        """The number of steps to repeat before the step."""
        return self.step - self.first_step

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"first_step": self.first_step, "steps": self.steps, "seconds": self.seconds}


@dataclass(frozen=True)
class ReplayStart:
    """The checkpoint that a replay starts from, and the engine of the run."""

    saved: Checkpoint | None
    engine: EngineName | None

    @classmethod
    def find(cls, folder: Path | None, step: int, engine: str | None = None) -> "ReplayStart":
        """The newest checkpoint of at most `step` steps that can be read; else the first step.

        Args:
            folder: The checkpoint folder.
            step: The step to look at.
            engine: The engine of the run; None: that of its checkpoints.
        """
        ignore = _ignore
        stored = checkpoint.newest(folder, ignore, step) if folder is not None else None
        if stored is not None:
            return cls(stored.checkpoint, engine_name(engine or stored.checkpoint.manifest.engine))
        newest = checkpoint.newest(folder, ignore) if folder is not None else None
        name = engine or (newest.checkpoint.manifest.engine if newest is not None else None)
        return cls(None, None if name is None else engine_name(name))

    def cost(self, spec: RunSpec, step: int, examples_per_s: float | None) -> ReplayCost:
        """What the replay costs, at this throughput or that in the checkpoint."""
        first = self.saved.manifest.step if self.saved is not None else 0
        if examples_per_s is None and self.saved is not None:
            examples_per_s = RunCounters.from_manifest(self.saved.manifest).totals.examples_per_s
        examples = (step - first) * spec.data.batch_size * micro_batches(spec)
        return ReplayCost(step, first, examples / examples_per_s if examples_per_s else None)


@dataclass(frozen=True)
class ReplayedRun:
    """A run whose next step is the one to look at."""

    run: Run
    context: RunContext


def check_has_step(context: RunContext, step: int) -> None:
    """Raise InvalidData if the run has no such step."""
    if not 0 <= step < context.plan.total_steps:
        raise InvalidData(
            "the run",
            "step",
            expected=f"a step from 0 to {context.plan.total_steps - 1}",
            received=str(step),
        )


def replay_to(
    context: RunContext,
    step: int,
    start: ReplayStart,
    on_block: OnBlock | None,
    should_stop: ShouldStop,
) -> ReplayedRun:
    """Repeat the steps before `step`, bit for bit on the same kind of device.

    Nothing is evaluated, saved or explained on the way; rollbacks happen as in the run.

    Raises:
        ReplayStopped: `should_stop` returned true.
        TrainingError: The run cannot be set up, or its checkpoint does not fit.
    """
    buffer = CallbackBuffer(on_block, None)
    run = _start(context, start, buffer)
    _use_engine(run, context.job.spec, start)
    while run.totals.steps < step:
        if should_stop():
            raise ReplayStopped
        train_block(run, until=step)
    buffer.flush()
    return ReplayedRun(run, context)


def _start(context: RunContext, start: ReplayStart, buffer: CallbackBuffer) -> Run:
    saved = start.saved
    float32 = bool(saved and RunCounters.from_manifest(saved.manifest).in_float32)
    run = Run(context, CheckpointSaver(None, None), buffer, float32=float32)
    if saved is not None:
        run.restore(saved)
    else:
        run.start()
    return run


def _use_engine(run: Run, spec: RunSpec, start: ReplayStart) -> None:
    engine: EngineName = (
        start.engine or "graph" if spec.runtime.engine == "auto" else spec.runtime.engine
    )
    run.runner.use_engine(engine, run.totals.steps)


def _ignore(error: object) -> None:
    """A checkpoint that cannot be read is passed over for an older one."""
