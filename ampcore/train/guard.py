"""Detects a run that no longer learns: too many bad steps in a row, or a damaged state.

Damage is what is not finite. A weight of 3e30 is useless as well, but nothing tells it from a
large one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ampcore.errors import NonFiniteLoss, NonFiniteResult, SkipBudgetExceeded, TrainingError
from ampcore.series import StepBlock
from ampcore.spec import JobSpec
from ampcore.spec.precision import COMPUTE_DTYPE, AdaptiveScale, AutoScale, FixedScale, NoScale
from ampcore.train.loop import Halt


@dataclass(frozen=True)
class Exceeded:
    """The row of bad steps that was one too long."""

    first_step: int
    last_step: int
    checked: bool
    """The steps were skipped; without a finite check their losses or gradients were not finite."""

    @property
    def sentence(self) -> str:
        """What happened."""
        count = self.last_step - self.first_step + 1
        what = _SKIPPED if self.checked else _APPLIED
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


_SKIPPED = "gradients that are not finite and were skipped"
_APPLIED = "a loss or gradients that are not finite"


@dataclass(frozen=True)
class Damaged:
    """A state that is not finite, or was made by gradients that were not."""

    last_step: int
    what: str
    """What is wrong, as a sentence that goes on."""

    @property
    def first_step(self) -> int:
        """The step after which it was found."""
        return self.last_step

    @property
    def sentence(self) -> str:
        """What happened."""
        return f"After step {self.last_step} the state was found to be damaged: {self.what}"

    def error(self, spec: JobSpec) -> TrainingError:
        """The error that ends the run, with advice."""
        return NonFiniteResult(f"{self.sentence}; {not_finite_advice(spec)}.")


Trouble = Exceeded | Damaged
"""Why a run cannot go on as it is."""

MAX_NAMED: Final = 5
"""So many variables stand in a message; the rest is counted."""


def listed(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def not_finite_advice(spec: JobSpec) -> str:
    """What to do about values that are not finite."""
    skip = ", or set loss_scale.mode: dynamic to skip steps with gradients that are not finite"
    unchecked = isinstance(spec.loss_scale, NoScale | AutoScale)
    return f"check the data for outliers, lower optimizer.learning_rate{skip if unchecked else ''}"


class Guard:
    """Counts bad steps in a row over all blocks.

    A bad step is one that was skipped or, without a finite check, one whose loss or gradient norm
    is not finite. `Loop` counts the same way, and ends a block where the limit is reached.
    """

    def __init__(self, limit: int, *, checked: bool, row: int = 0) -> None:
        self._limit, self._checked = limit, checked
        self.row = row
        """The bad steps in a row up to now."""
        self._bad_loss_at: int | None = None
        """The newest step that was applied, if its loss is not finite."""
        self._bad_gradients_at: int | None = None
        """The first applied step whose gradient norm is not finite: no later step repairs that."""

    @property
    def damage(self) -> str | None:
        """What the steps say against the present state, as a sentence that goes on."""
        if self._bad_gradients_at is not None:
            return f"the gradient norm of step {self._bad_gradients_at} was not finite"
        if self._bad_loss_at is not None:
            return f"the loss of step {self._bad_loss_at} was not finite"
        return None

    @property
    def halt(self) -> Halt:
        """Where the next block has to end, for the guard to act at the step of its limit."""
        return Halt(self.row, self._limit)

    def begin_anew(self) -> None:
        """Count from a state that is good."""
        self.row, self._bad_loss_at, self._bad_gradients_at = 0, None, None

    def observe(self, block: StepBlock) -> Exceeded | None:
        """The first row that is as long as the limit, if there is one; the count goes on."""
        self._note_damage(block)
        bad = block["skipped"] if self._checked else damaging_steps(block)
        rows = _rows(bad, self.row)
        self.row = int(rows[-1]) if len(rows) else self.row
        if not (rows >= self._limit).any():
            return None
        last = block.first_step + int(np.argmax(rows >= self._limit))
        return Exceeded(last - self._limit + 1, last, self._checked)

    def _note_damage(self, block: StepBlock) -> None:
        applied = np.flatnonzero(~block["skipped"])
        if not len(applied):
            return
        last = int(applied[-1])
        bad_loss = not np.isfinite(block["loss"][last])
        self._bad_loss_at = block.first_step + last if bad_loss else None
        bad = applied[~np.isfinite(block["grad_norm"][applied])]
        if len(bad) and self._bad_gradients_at is None:
            self._bad_gradients_at = block.first_step + int(bad[0])


def damaging_steps(block: StepBlock) -> NDArray[np.bool_]:
    """The steps that were applied although their loss or gradient norm is not finite."""
    finite = np.isfinite(block["loss"]) & np.isfinite(block["grad_norm"])
    return ~finite & ~block["skipped"]


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
