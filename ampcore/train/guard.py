"""Ends a run that no longer learns: too many skipped or non-finite steps in a row."""

import numpy as np
from numpy.typing import NDArray

from ampcore.errors import NonFiniteLoss, SkipBudgetExceeded
from ampcore.series import StepBlock
from ampcore.spec import JobSpec
from ampcore.spec.precision import COMPUTE_DTYPE, DynamicScale, FixedScale


class Guard:
    """Counts bad steps in a row over all blocks.

    A bad step is one that was skipped or, without a finite check, one whose loss is not finite.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._limit = spec.guard.max_consecutive_skips
        self._run = 0

    def observe(self, block: StepBlock) -> None:
        """Raise SkipBudgetExceeded or NonFiniteLoss when the row of bad steps is full."""
        checked = self._spec.loss_scale.mode != "none"
        bad = block["skipped"] if checked else ~np.isfinite(block["loss"])
        runs = _runs(bad, self._run)
        if (runs >= self._limit).any():
            last = block.first_step + int(np.argmax(runs >= self._limit))
            place = f"{self._limit} steps in a row, {last - self._limit + 1} to {last},"
            raise self._skipped(place) if checked else _non_finite(place)
        self._run = int(runs[-1]) if len(runs) else self._run

    def _skipped(self, place: str) -> SkipBudgetExceeded:
        match self._spec.loss_scale:
            case FixedScale(scale=scale):
                advice = f"lower loss_scale.scale from {scale:g} or set loss_scale.mode: dynamic"
            case DynamicScale(minimum=minimum) if minimum > 1:
                advice = f"lower loss_scale.minimum from {minimum:g}"
            case _ if COMPUTE_DTYPE.get(self._spec.precision.policy) == "float16":
                advice = "lower optimizer.learning_rate or set precision.policy: mixed_bfloat16"
            case _:
                advice = "lower optimizer.learning_rate"
        return SkipBudgetExceeded(
            f"{place} had gradients that are not finite and were skipped; check the data for "
            f"outliers, {advice}."
        )


def _non_finite(place: str) -> NonFiniteLoss:
    return NonFiniteLoss(
        f"{place} had a loss that is not finite; check the data for outliers, lower "
        "optimizer.learning_rate, or set loss_scale.mode: dynamic to skip such steps."
    )


def _runs(bad: NDArray[np.bool_], before: int) -> NDArray[np.int64]:
    """At each step, how many bad ones in a row end there, with `before` of them earlier."""
    steps = np.arange(1, len(bad) + 1)
    last_good = np.maximum.accumulate(np.where(bad, 0, steps))
    return np.where(last_good == 0, steps + before, steps - last_good) * bad
