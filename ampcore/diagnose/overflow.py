"""Finds out why a step was skipped: its loss scale, an operation, the data, or the weights.

The step is computed again, at other loss scales and in float32 (see `replay`). Nothing is
computed, and nothing traced, before the first skip.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import tensorflow as tf

from ampcore.data import Batch
from ampcore.diagnose.replay import Replay
from ampcore.diagnose.skipped_step import BatchPlace, Step, explained
from ampcore.diagnose.verdict import Findings, Verdict, sentence
from ampcore.models.task import Task
from ampcore.precision import NoLossScale

Tensor = Any
Clock = Callable[[], float]

FULL: Final = 8
"""The first skips of a run, all of which are explained."""
BUDGET: Final = 0.01
"""Of the run's time that the verdicts after those may take."""


@dataclass
class Sampling:
    """Which skips are explained: the first, then every one at which their number has doubled."""

    skips: int = 0
    next_at: int = 1
    spent_s: float = 0.0
    run_s: float = 0.0
    """The time of the run, up to the last verdict or checkpoint."""

    def wants(self, run_s: float) -> bool:
        """Whether the next skip is to be explained, `run_s` seconds into the run."""
        number = self.skips + 1
        return number <= FULL or (number >= self.next_at and self.spent_s <= BUDGET * run_s)

    def explained(self, seconds: float) -> None:
        """Count a verdict that took so long."""
        self.spent_s += seconds
        self.next_at = 2 * (self.skips + 1)


class OverflowVerdicts:
    """Says of a skipped step what overflowed, where it began, and why.

    Args:
        replay: Of the task that is trained.
        float32_task: Makes the same task in float32; called once, when it is first needed. The
            values of its weights and held variables do not matter.
        clock: Seconds, of any epoch.
    """

    def __init__(
        self,
        replay: Replay,
        float32_task: Callable[[], Task],
        clock: Clock = time.perf_counter,
    ) -> None:
        self._replay, self._make_float32 = replay, float32_task
        self._float32: Replay | None = None
        self._clock, self._began = clock, clock()
        self.sampling = Sampling()
        """Which skips are explained, and what that has cost."""

    @property
    def wanted(self) -> bool:
        """Whether the run is to halt behind the next skip, to have it explained."""
        return self.sampling.wants(self._run_s)

    def observe(self, skips: int) -> None:
        """Count skips, those that were explained included; after their verdicts."""
        self.sampling.skips += skips

    def explain(
        self, scales: Sequence[float], batch: Batch, seed: Tensor, place: BatchPlace
    ) -> dict[str, Any]:
        """The facts of the step that was just skipped, for its event.

        `scales` are the networks' loss scales of that step, `batch` all its examples, `seed` the
        step's. Weights and held variables must be as they were when it ran. Costs a few steps.
        """
        began = self._clock()
        try:
            step = Step([float(scale) for scale in scales], batch, seed, place)
            facts = explained(self._replay, self._in_float32, step)
        except Exception as error:
            # A diagnosis that fails, for want of memory above all, must not end the run.
            facts = _unknown(error)
        seconds = self._clock() - began
        self.sampling.explained(seconds)
        return facts | {"explained_in_s": seconds}

    def to_json(self) -> dict[str, Any]:
        """What is counted, for a checkpoint."""
        return asdict(self.sampling) | {"run_s": self._run_s}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Go on counting from what `to_json` wrote."""
        known = {item.name for item in fields(Sampling)}
        self.sampling = Sampling(**{n: value for n, value in document.items() if n in known})
        self._began = self._clock()

    @property
    def _run_s(self) -> float:
        return self.sampling.run_s + self._clock() - self._began

    def _in_float32(self) -> Replay:
        """The float32 replay, with the present values."""
        if self._float32 is None:
            task = self._make_float32()
            self._float32 = Replay(task, [NoLossScale()] * len(task.networks))
        _copy_values(self._replay.task, self._float32.task)
        return self._float32


def _copy_values(source: Task, target: Task) -> None:
    for old, new in zip(source.networks, target.networks, strict=True):
        pairs = zip(old.model.trainable_variables, new.model.trainable_variables, strict=True)
        for variable, copy in pairs:
            copy.assign(tf.cast(variable.value, copy.dtype))


def _unknown(error: Exception) -> dict[str, Any]:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    found = Findings(Verdict.UNKNOWN, reason=reason[:300])
    return {"verdict": found.verdict.value, "sentence": sentence(found)}
