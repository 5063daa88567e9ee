"""Detects a run that no longer learns: too many non-finite steps in a row, or a damaged state.

Damage means non-finite values. A weight of 3e30 is useless as well, but cannot be distinguished
from a large valid weight.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ampcore.training.step.loop import StopCondition
from ampspec.errors import NonFiniteLoss, NonFiniteResult, SkipBudgetExceeded, TrainingError
from ampspec.precision.precision import COMPUTE_DTYPE, AdaptiveScale, AutoScale, FixedScale, NoScale
from ampspec.telemetry import Event, StepBlock
from ampspec.training.run import RunSpec


@dataclass(frozen=True)
class TooManyNonfiniteSteps:
    """More non-finite steps in a row than the guard allows."""

    first_step: int
    last_step: int
    checked: bool
    """True: the steps were skipped. False: without a finite check, they were applied."""

    @property
    def message(self) -> str:
        """What happened."""
        count = self.last_step - self.first_step + 1
        description = _NONFINITE_SKIPPED if self.checked else _NONFINITE_APPLIED
        return f"{count} steps in a row, {self.first_step} to {self.last_step}, had {description}"

    def error(self, spec: RunSpec, diagnosis: str | None = None) -> TrainingError:
        """The error that ends the run.

        Args:
            spec: The settings of the run.
            diagnosis: What the skipped steps are due to, and what to do; None: not known.
        """
        if self.checked:
            unknown = f"Check the data for outliers, {_advice(spec)}."
            return SkipBudgetExceeded(f"{self.message}. {diagnosis or unknown}")
        return NonFiniteLoss(
            f"{self.message}; check the data for outliers, lower optimizer.learning_rate, or "
            "set guard.skip_nonfinite: true to skip such steps."
        )


_NONFINITE_SKIPPED = "non-finite gradients and were skipped"
_NONFINITE_APPLIED = "a non-finite loss or gradient"


@dataclass(frozen=True)
class DamagedState:
    """A state that is not finite, or was updated with non-finite gradients."""

    last_step: int
    description: str
    """The damage, as a clause without a full stop."""

    @property
    def first_step(self) -> int:
        """The step after which it was found."""
        return self.last_step

    @property
    def message(self) -> str:
        """What happened."""
        return f"The state after step {self.last_step} is damaged: {self.description}"

    def error(self, spec: RunSpec, diagnosis: str | None = None) -> TrainingError:
        """The error that ends the run; `diagnosis` is that of its last skipped step."""
        return NonFiniteResult(f"{self.message}. {diagnosis or nonfinite_advice(spec)}")


GuardFailure = TooManyNonfiniteSteps | DamagedState
"""Why a run cannot continue."""


def nonfinite_advice(spec: RunSpec) -> str:
    """What to do about values that are not finite."""
    skip = ", or set guard.skip_nonfinite: true to skip steps with non-finite gradients"
    unchecked = isinstance(spec.loss_scale, NoScale | AutoScale) and not spec.guard.skip_nonfinite
    return f"Check the data for outliers, lower optimizer.learning_rate{skip if unchecked else ''}."


class NonfiniteStepGuard:
    """Counts non-finite steps in a row over all blocks.

    A non-finite step is one that was skipped or, without a finite check, one whose loss or gradient
    norm is not finite. `Loop` counts the same way, and ends a block where the limit is reached.
    """

    def __init__(self, limit: int, *, checked: bool, nonfinite_in_a_row: int = 0) -> None:
        self._limit, self._checked = limit, checked
        self.nonfinite_in_a_row = nonfinite_in_a_row
        """The current number of non-finite steps in a row."""
        self._nonfinite_loss_at: int | None = None
        """The last applied step, if its loss is not finite."""
        self._nonfinite_gradients_at: int | None = None
        """The first applied step with a non-finite gradient norm; no later step can repair it."""

    @property
    def damage(self) -> str | None:
        """Why the current state counts as damaged, as a clause without a full stop; else None."""
        if self._nonfinite_gradients_at is not None:
            return f"the gradient norm of step {self._nonfinite_gradients_at} was not finite"
        if self._nonfinite_loss_at is not None:
            return f"the loss of step {self._nonfinite_loss_at} was not finite"
        return None

    @property
    def stop_condition(self) -> StopCondition:
        """When the next block ends early, so that the guard acts at the step of its limit."""
        return StopCondition(self.nonfinite_in_a_row, self._limit)

    def reset(self) -> None:
        """Start counting again, from a good state."""
        self.nonfinite_in_a_row, self._nonfinite_loss_at, self._nonfinite_gradients_at = (
            0,
            None,
            None,
        )

    def observe(self, block: StepBlock) -> TooManyNonfiniteSteps | None:
        """Count the steps of a block; returns the first non-finite ones that reach the limit."""
        self._note_damage(block)
        nonfinite = block["skipped"] if self._checked else nonfinite_applied_steps(block)
        in_a_row = _in_a_row(nonfinite, self.nonfinite_in_a_row)
        self.nonfinite_in_a_row = int(in_a_row[-1]) if len(in_a_row) else self.nonfinite_in_a_row
        if not (in_a_row >= self._limit).any():
            return None
        last = block.first_step + int(np.argmax(in_a_row >= self._limit))
        return TooManyNonfiniteSteps(last - self._limit + 1, last, self._checked)

    def _note_damage(self, block: StepBlock) -> None:
        applied = np.flatnonzero(~block["skipped"])
        if not len(applied):
            return
        last = int(applied[-1])
        nonfinite_loss = not np.isfinite(block["loss"][last])
        self._nonfinite_loss_at = block.first_step + last if nonfinite_loss else None
        nonfinite = applied[~np.isfinite(block["grad_norm"][applied])]
        if len(nonfinite) and self._nonfinite_gradients_at is None:
            self._nonfinite_gradients_at = block.first_step + int(nonfinite[0])


def nonfinite_applied_steps(block: StepBlock) -> NDArray[np.bool_]:
    """The steps that were applied although their loss or gradient norm is not finite."""
    finite = np.isfinite(block["loss"]) & np.isfinite(block["grad_norm"])
    return ~finite & ~block["skipped"]


def _advice(spec: RunSpec) -> str:
    match spec.loss_scale:
        case FixedScale(scale=scale):
            return f"lower loss_scale.scale from {scale:g} or set loss_scale.mode: dynamic"
        case AdaptiveScale(minimum=minimum) if minimum > 1:
            return f"lower loss_scale.minimum from {minimum:g}"
        case _ if COMPUTE_DTYPE.get(spec.precision.policy) == "float16":
            return "lower optimizer.learning_rate or set precision.policy: mixed_bfloat16"
        case _:
            return "lower optimizer.learning_rate"


def _in_a_row(nonfinite: NDArray[np.bool_], before_block: int) -> NDArray[np.int64]:
    """For each step, the non-finite steps in a row up to it."""
    steps = np.arange(1, len(nonfinite) + 1)
    last_finite = np.maximum.accumulate(np.where(nonfinite, 0, steps))
    return np.where(last_finite == 0, steps + before_block, steps - last_finite) * nonfinite


def damage_warning(block: StepBlock) -> Event | None:
    """The warning about the first step that was applied although it is not finite, if any."""
    damaging = nonfinite_applied_steps(block)
    if not damaging.any():
        return None
    first = int(damaging.argmax())
    if math.isfinite(block["loss"][first]):
        code, what = "non_finite_gradients", "gradient norm"
    else:
        code, what = "non_finite_loss", "loss"
    message = f"The {what} is not finite, but the step was applied."
    return Event.warning(code, message, block.first_step + first)
