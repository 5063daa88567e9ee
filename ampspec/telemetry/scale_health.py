"""The health of a loss scale, derived from its latest steps."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ampspec.telemetry.steps.block import StepBlock

WINDOW_STEPS: Final = 500
"""The number of latest steps that are considered."""
STABLE_STEPS: Final = 100
"""Unchanged steps after which a scale that has only decreased is stable."""
COSTLY_SKIP_SHARE: Final = 0.01
"""The share of skipped steps from which a scale that rises and falls is oscillating."""
MIN_REVERSALS: Final = 2
"""An oscillating scale rises and falls at least this often in the window."""


class ScaleHealth(StrEnum):
    """The health of a loss scale: the first of these that holds, in this order.

    FIXED: it does not change; without loss scaling it is 1.
    FLOOR: it is at its minimum, and a step at the minimum was skipped: it would decrease further.
    CAP: it was at its maximum in the whole window without a skipped step: it would grow further.
    WARMING_UP: fewer than STABLE_STEPS steps were seen, or the calibration is not over; or the
    scale has never reversed, and it last grew less than two growth intervals ago or last shrank
    less than STABLE_STEPS steps ago.
    OSCILLATING: in the window it rose at least MIN_REVERSALS times and fell as often, and at
    least COSTLY_SKIP_SHARE of the steps were skipped.
    STEADY: otherwise, including occasional skips when the scale tries a higher value.
    """

    FIXED = "fixed"
    FLOOR = "pinned at the floor"
    CAP = "pinned at the cap"
    WARMING_UP = "warming up"
    OSCILLATING = "oscillating"
    STEADY = "steady"


@dataclass(frozen=True)
class ScaleBounds:
    """The limits of a loss scale and how fast it grows."""

    minimum: float = 1.0
    maximum: float = 2.0**24
    growth_interval: int = 2000
    calibration_steps: int = 0
    """The number of initial steps that determine the value of a frozen scale."""

    @classmethod
    def of(cls, constants: object) -> Self | None:
        """The bounds of a loss scale or of its part of a spec; None if it does not change."""
        names = [name.name for name in fields(cls) if hasattr(constants, name.name)]
        if "growth_interval" not in names:
            return None
        return cls(**{name: getattr(constants, name) for name in names})


class ScaleHealthMonitor:
    """Monitors one loss scale, in constant memory.

    Args:
        bounds: None for a scale that does not change.
        network: The network of the scale, in a job with several.
    """

    def __init__(self, bounds: ScaleBounds | None, network: str | None = None) -> None:
        self._bounds, self._network = bounds, network
        self._scales: NDArray[np.float32] = np.empty(0, np.float32)
        self._skipped: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._steps = 0
        self._changed_at: int | None = None
        self._grew = False
        """Whether the last change was an increase."""
        self._reversed = False
        """Whether the scale has both increased and decreased."""

    def observe(self, block: StepBlock) -> None:
        """Take the next block of steps into account."""
        if self._network is None:
            self.observe_steps(block["loss_scale"], block["skipped"])
            return
        # A step is skipped for all networks; the norm shows which network overflowed.
        overflowed = ~np.isfinite(block[f"grad_norm/{self._network}"])
        self.observe_steps(block[f"loss_scale/{self._network}"], block["skipped"] & overflowed)

    def observe_steps(self, scales: ArrayLike, skipped: ArrayLike) -> None:
        """The scale that each step used, and whether its gradients were not finite."""
        new = np.asarray(scales, np.float32)
        if not len(new):
            return
        chain = np.concatenate([self._scales[-1:], new])
        moves = np.sign(np.diff(chain))
        # The very first step has no previous scale.
        first = self._steps + len(new) - len(moves)
        if len(changes := np.flatnonzero(moves)):
            directions = moves[changes] > 0
            last_direction = [] if self._changed_at is None else [self._grew]
            self._reversed |= len({*last_direction, *directions.tolist()}) > 1
            self._changed_at, self._grew = first + int(changes[-1]), bool(directions[-1])
        self._steps += len(new)
        self._scales = np.concatenate([self._scales, new])[-WINDOW_STEPS:]
        self._skipped = np.concatenate([self._skipped, np.asarray(skipped, np.bool_)])[
            -WINDOW_STEPS:
        ]

    @property
    def current(self) -> ScaleHealth:
        """The health of the scale now."""
        if self._bounds is None:
            return ScaleHealth.FIXED
        if self._is_at_floor(self._bounds):
            return ScaleHealth.FLOOR
        if self._is_at_cap(self._bounds):
            return ScaleHealth.CAP
        if self._warms_up(self._bounds):
            return ScaleHealth.WARMING_UP
        return ScaleHealth.OSCILLATING if self._oscillates() else ScaleHealth.STEADY

    def to_json(self) -> dict[str, Any]:
        """The whole state, for a checkpoint."""
        return {
            "scales": self._scales.tolist(),
            "skipped": np.flatnonzero(self._skipped).tolist(),
            "steps": self._steps,
            "changed_at": self._changed_at,
            "grew": self._grew,
            "turned": self._reversed,
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Restore the state that `to_json` wrote."""
        document = {**self.to_json(), **document}
        self._scales = np.asarray(document["scales"], np.float32)
        self._skipped = np.zeros(len(self._scales), np.bool_)
        self._skipped[np.asarray(document["skipped"], np.int64)] = True
        self._steps, self._changed_at = document["steps"], document["changed_at"]
        self._grew, self._reversed = document["grew"], document["turned"]

    def _is_at_floor(self, bounds: ScaleBounds) -> bool:
        lowest = self._scales <= bounds.minimum
        return bool(lowest[-1:].any() and (lowest & self._skipped).any())

    def _is_at_cap(self, bounds: ScaleBounds) -> bool:
        highest = bool((self._scales >= bounds.maximum).all())
        return self._steps >= STABLE_STEPS and highest and not self._skipped.any()

    def _oscillates(self) -> bool:
        moves = np.diff(self._scales)
        reversals = min((moves > 0).sum(), (moves < 0).sum())
        return bool(reversals >= MIN_REVERSALS and self._skipped.mean() >= COSTLY_SKIP_SHARE)

    def _warms_up(self, bounds: ScaleBounds) -> bool:
        if self._steps < max(STABLE_STEPS, bounds.calibration_steps):
            return True
        if self._reversed or self._changed_at is None:
            return False
        quiet = self._steps - self._changed_at
        return quiet < (2 * bounds.growth_interval if self._grew else STABLE_STEPS)
