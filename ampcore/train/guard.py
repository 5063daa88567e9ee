"""Notices a run that no longer learns: too many skipped or non-finite steps in a row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ampcore.errors import NonFiniteLoss, SkipBudgetExceeded, TrainingError
from ampcore.series import StepBlock
from ampcore.spec import JobSpec
from ampcore.spec.precision import COMPUTE_DTYPE, AdaptiveScale, FixedScale


@dataclass(frozen=True)
class Exceeded:
    """The row of bad steps that was one too long."""

    first_step: int
    last_step: int
    checked: bool
    """The steps were skipped; without a finite check their losses were not finite."""

    @property
    def sentence(self) -> str:
        """What happened."""
        count = self.last_step - self.first_step + 1
        what = "gradients that are not finite and were skipped" if self.checked else _LOSS
        return f"{count} steps in a row, {self.first_step} to {self.last_step}, had {what}"

    def error(self, spec: JobSpec) -> TrainingError:
        """The error that ends the run, with advice."""
        if self.checked:
            return SkipBudgetExceeded(
                f"{self.sentence}; check the data for outliers, {_advice(spec)}."
            )
        return NonFiniteLoss(
            f"{self.sentence}; check the data for outliers, lower optimizer.learning_rate, or "
            "set loss_scale.mode: dynamic to skip such steps."
        )


_LOSS = "a loss that is not finite"


class Guard:
    """Counts bad steps in a row over all blocks.

    A bad step is one that was skipped or, without a finite check, one whose loss is not finite.
    """

    def __init__(self, limit: int, *, checked: bool, row: int = 0) -> None:
        self._limit, self._checked = limit, checked
        self.row = row
        """The bad steps in a row up to now."""

    def observe(self, block: StepBlock) -> Exceeded | None:
        """The first row that is as long as the limit, if there is one; the count goes on."""
        bad = block["skipped"] if self._checked else ~np.isfinite(block["loss"])
        rows = _rows(bad, self.row)
        self.row = int(rows[-1]) if len(rows) else self.row
        if not (rows >= self._limit).any():
            return None
        last = block.first_step + int(np.argmax(rows >= self._limit))
        return Exceeded(last - self._limit + 1, last, self._checked)


def _advice(spec: JobSpec) -> str:
    match spec.loss_scale:
        case FixedScale(scale=scale):
            return f"lower loss_scale.scale from {scale:g} or set loss_scale.mode: dynamic"
        case AdaptiveScale(minimum=minimum) if minimum > 1:
            return f"lower loss_scale.minimum from {minimum:g}"
        case _ if COMPUTE_DTYPE.get(spec.precision.policy) == "float16":
            return "lower optimizer.learning_rate or set precision.policy: mixed_bfloat16"
        case _:
            return "lower optimizer.learning_rate"


def _rows(bad: NDArray[np.bool_], before: int) -> NDArray[np.int64]:
    """At each step, how many bad ones in a row end there, with `before` of them earlier."""
    steps = np.arange(1, len(bad) + 1)
    last_good = np.maximum.accumulate(np.where(bad, 0, steps))
    return np.where(last_good == 0, steps + before, steps - last_good) * bad
