"""One word for how a loss scale is doing."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ampcore.series.block import StepBlock

WINDOW: Final = 500
"""The newest steps that are looked at."""
SETTLED: Final = 100
"""Steps without a change after which a scale that was only lowered has found its place."""
COSTLY: Final = 0.01
"""The share of skipped steps from which going up and down is more than keeping at the limit."""
TURNS: Final = 2
"""So often in the window the scale must go up, and as often down."""


class Health(StrEnum):
    """How a loss scale is doing. The first that is true counts, in this order.

    FIXED: it does not move; without loss scaling it is 1.
    FLOOR: it is at its minimum, where a step of the window was skipped: it would go lower.
    CAP: it was at its maximum in the whole window, and no step was skipped: it would go higher.
    WARMING_UP: fewer than SETTLED steps were seen, or fewer than its first calibration takes; or
    it has never turned round, and it last grew less than two growth intervals ago, or last
    shrank less than SETTLED steps ago.
    OSCILLATING: in the window it went up at least TURNS times and down as often, and at least
    COSTLY of the steps were skipped.
    STEADY: otherwise. A skip now and then, as the scale tries a higher value, belongs to it.
    """

    FIXED = "fixed"
    FLOOR = "pinned at the floor"
    CAP = "pinned at the cap"
    WARMING_UP = "warming up"
    OSCILLATING = "oscillating"
    STEADY = "steady"


@dataclass(frozen=True)
class ScaleBounds:
    """Between what, and how fast, a loss scale moves."""

    minimum: float = 1.0
    maximum: float = 2.0**24
    growth_interval: int = 2000
    calibration_steps: int = 0
    """The first steps, in which a scale that will be frozen is sought."""

    @classmethod
    def of(cls, constants: object) -> Self | None:
        """Those of a loss scale or of its part of a spec; None for one that does not move."""
        names = [name.name for name in fields(cls) if hasattr(constants, name.name)]
        if "growth_interval" not in names:
            return None
        return cls(**{name: getattr(constants, name) for name in names})


class ScaleHealth:
    """Watches one loss scale; what it remembers does not grow with the run.

    Args:
        bounds: None for a scale that does not move.
        network: Whose scale it is, in a job with several networks.
    """

    def __init__(self, bounds: ScaleBounds | None, network: str | None = None) -> None:
        self._bounds, self._network = bounds, network
        self._scales: NDArray[np.float32] = np.empty(0, np.float32)
        self._skipped: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._steps = 0
        self._changed_at: int | None = None
        self._grew = False
        """The last change was up."""
        self._turned = False
        """The scale has gone up as well as down."""

    def observe(self, block: StepBlock) -> None:
        """Take the steps of a block into account, which follow those before."""
        if self._network is None:
            self.observe_steps(block["loss_scale"], block["skipped"])
            return
        # A step is skipped for all networks; an overflow shows in the norm of those to blame.
        own = ~np.isfinite(block[f"grad_norm/{self._network}"])
        self.observe_steps(block[f"loss_scale/{self._network}"], block["skipped"] & own)

    def observe_steps(self, scales: ArrayLike, skipped: ArrayLike) -> None:
        """The scale that each step used, and whether its gradients were not finite."""
        new = np.asarray(scales, np.float32)
        if not len(new):
            return
        chain = np.concatenate([self._scales[-1:], new])
        moves = np.sign(np.diff(chain))
        # The first step of all has no scale before it.
        first = self._steps + len(new) - len(moves)
        if len(changes := np.flatnonzero(moves)):
            directions = moves[changes] > 0
            before = [] if self._changed_at is None else [self._grew]
            self._turned |= len({*before, *directions.tolist()}) > 1
            self._changed_at, self._grew = first + int(changes[-1]), bool(directions[-1])
        self._steps += len(new)
        self._scales = np.concatenate([self._scales, new])[-WINDOW:]
        self._skipped = np.concatenate([self._skipped, np.asarray(skipped, np.bool_)])[-WINDOW:]

    @property
    def word(self) -> Health:
        """How the scale is doing now."""
        if self._bounds is None:
            return Health.FIXED
        if self._is_at_floor(self._bounds):
            return Health.FLOOR
        if self._is_at_cap(self._bounds):
            return Health.CAP
        if self._warms_up(self._bounds):
            return Health.WARMING_UP
        return Health.OSCILLATING if self._oscillates() else Health.STEADY

    def to_json(self) -> dict[str, Any]:
        """Everything that is remembered, for a checkpoint."""
        return {
            "scales": self._scales.tolist(),
            "skipped": np.flatnonzero(self._skipped).tolist(),
            "steps": self._steps,
            "changed_at": self._changed_at,
            "grew": self._grew,
            "turned": self._turned,
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Go on from what `to_json` wrote."""
        document = {**self.to_json(), **document}
        self._scales = np.asarray(document["scales"], np.float32)
        self._skipped = np.zeros(len(self._scales), np.bool_)
        self._skipped[np.asarray(document["skipped"], np.int64)] = True
        self._steps, self._changed_at = document["steps"], document["changed_at"]
        self._grew, self._turned = document["grew"], document["turned"]

    def _is_at_floor(self, bounds: ScaleBounds) -> bool:
        lowest = self._scales <= bounds.minimum
        return bool(lowest[-1:].any() and (lowest & self._skipped).any())

    def _is_at_cap(self, bounds: ScaleBounds) -> bool:
        highest = bool((self._scales >= bounds.maximum).all())
        return self._steps >= SETTLED and highest and not self._skipped.any()

    def _oscillates(self) -> bool:
        moves = np.diff(self._scales)
        turns = min((moves > 0).sum(), (moves < 0).sum())
        return bool(turns >= TURNS and self._skipped.mean() >= COSTLY)

    def _warms_up(self, bounds: ScaleBounds) -> bool:
        if self._steps < max(SETTLED, bounds.calibration_steps):
            return True
        if self._turned or self._changed_at is None:
            return False
        quiet = self._steps - self._changed_at
        return quiet < (2 * bounds.growth_interval if self._grew else SETTLED)
