"""Samples the ranges of a run's layers: often in the first steps, then at growing distances."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ampcore.data import Batch
from ampcore.diagnostics.ranges.range_probe import RangeProbe
from ampcore.diagnostics.sampling_budget import Clock, SamplingBudget
from ampspec.telemetry import StepBlock
from ampspec.telemetry.ranges.range_samples import RangeSample
from ampspec.training.telemetry import RangeSampling

Tensor = Any
logger = logging.getLogger(__name__)

FIRST_SAMPLE_S_PER_LAYER: Final = 0.1
"""The expected time of the first sample, which traces the function: measured on two CPU cores."""


class RangeSampler:
    """Decides which steps are sampled, and measures what that costs.

    With a limit of the time, the first block of steps is not delayed; a sample follows it in any
    case. Nothing else is sampled before the length of the run can be estimated, in the third block.
    Samples that trace the function (the first one, and the first one after a resume) may take the
    share of the expected time of the whole run; what they took beyond it is missing for the others.
    All others together may take as much again: half of it whenever they are due, the rest as the
    run goes on.

    Args:
        probe: Measures the task that is trained.
        settings: The schedule.
        total_steps: The length of the run.
        clock: Returns seconds since any fixed time.
    """

    def __init__(
        self,
        probe: RangeProbe,
        settings: RangeSampling,
        total_steps: int,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._probe, self._settings, self._total_steps = probe, settings, total_steps
        self._clock, self._budget = clock, SamplingBudget(clock)
        """Of the samples that trace nothing."""
        self._next_step = 0
        self._traced_s = 0.0
        self._last_cost_s = FIRST_SAMPLE_S_PER_LAYER * probe.layer_count
        self._is_traced = False
        self._blocks = self._timed_steps = 0
        self._timed_s = 0.0
        self.error: str | None = None
        """Why nothing more is sampled, if a sample failed."""

    def steps_until_due(self, step: int) -> int | None:
        """The steps that a block may have from `step` on, to end at a sample.

        None where samples may be postponed.
        """
        is_exact = self._settings.enabled and self._settings.max_time_share is None
        if not is_exact or self.error is not None:
            return None
        return max(self._next_step - step, 1)

    def is_due(self, step: int) -> bool:
        """Whether to sample the next step, number `step`, before it is trained."""
        return (
            self._settings.enabled
            and self.error is None
            and step >= self._next_step
            and self._has_time(step)
        )

    def sample(
        self, step: int, scales: Sequence[float], batch: Batch, seed: Tensor
    ) -> RangeSample | None:
        """Measure a step; nothing is changed. None if that failed."""
        began_at, sample = self._clock(), None
        try:
            sample = self._probe(step, scales, batch, seed)
        except Exception as error:
            # Most likely out of memory; the run continues without samples.
            logger.warning("Ranges are no longer sampled.", exc_info=True)
            self.error = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        self._count_cost(self._clock() - began_at)
        following = step + 1
        if following >= self._settings.first_steps:
            following = max(following, math.ceil(step * self._settings.growth))
        self._next_step = following
        return sample

    def observe(self, block: StepBlock) -> None:
        """Learn the time of a step from a block that was trained."""
        self._blocks += 1
        # The first block is compiled in its time.
        if self._blocks > 1:
            self._timed_steps += len(block)
            self._timed_s += float(block["step_time_s"].sum())

    def to_json(self) -> dict[str, Any]:
        """The counters, for a checkpoint."""
        return {
            "next_step": self._next_step,
            "traced_s": self._traced_s,
            **self._budget.to_json(),
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Restore what `to_json` wrote."""
        document = {**self.to_json(), **document}
        self._next_step = document["next_step"]
        self._traced_s = document["traced_s"]
        self._budget.restore(document)

    def _has_time(self, step: int) -> bool:
        share = self._settings.max_time_share
        if share is None:
            return True
        if self._next_step == 0:  # no sample yet
            return self._blocks > 0
        if not self._timed_steps:
            return False
        expected_s = self._expected_s(step)
        if not self._is_traced:
            return self._traced_s + self._last_cost_s <= share * expected_s
        excess_s = max(self._traced_s - share * expected_s, 0.0)
        mean_s = (self._budget.run_s + expected_s) / 2
        return self._budget.allows(share, excess_s + self._last_cost_s, of_s=mean_s)

    def _count_cost(self, cost_s: float) -> None:
        if self._is_traced:
            self._last_cost_s = cost_s
            self._budget.spend(cost_s)
        else:
            self._traced_s += cost_s
            self._last_cost_s = 0.0
            self._is_traced = True

    def _expected_s(self, step: int) -> float:
        """The expected time of the whole run."""
        step_s = self._timed_s / max(self._timed_steps, 1)
        return self._budget.run_s + step_s * (self._total_steps - step)
