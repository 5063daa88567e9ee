"""The loss scale and the skipped steps of the optimizer that `model.fit` uses, of any kind."""

from typing import Any, NamedTuple

import keras

from ampcore.precision.keras_optimizer import LossScaleOptimizer
from ampspec.telemetry.scale_health import ScaleBounds


class ScaledSteps(NamedTuple):
    """What happened to the loss scale in the steps since the reading before.

    Attributes:
        loss_scale: The scale that the first of them used.
        skipped: Whether any of them was skipped.
    """

    loss_scale: float
    skipped: bool


class FitLossScale:
    """Reads the loss scale of an optimizer after each step, or after several.

    Keras's own LossScaleOptimizer does not count skipped steps; it halves its scale in each. So a
    lower scale is a skipped step, unless it has grown as often since the last reading, which takes
    2000 steps.

    Args:
        optimizer: That of the compiled model; without loss scaling the scale is 1.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._scale = self.current
        self._skipped = self.skipped_steps

    @property
    def current(self) -> float:
        """The scale of the next step."""
        if not isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            return 1.0
        if isinstance(self._optimizer, LossScaleOptimizer) or self._optimizer.built:
            return float(self._optimizer.dynamic_scale)
        return float(self._optimizer.initial_scale)

    @property
    def bounds(self) -> ScaleBounds | None:
        """The limits of the scale; None if it does not change."""
        if isinstance(self._optimizer, LossScaleOptimizer):
            return ScaleBounds.of(self._optimizer.loss_scale)
        if isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            growth = int(self._optimizer.dynamic_growth_steps)
            return ScaleBounds(minimum=0.0, maximum=float("inf"), growth_interval=growth)
        return None

    def read(self) -> ScaledSteps:
        """The steps since the last call."""
        scale_before, skipped_before = self._scale, self._skipped
        self._scale, self._skipped = self.current, self.skipped_steps
        skipped = self._skipped > skipped_before or self._scale < scale_before
        return ScaledSteps(scale_before, skipped)

    @property
    def skipped_steps(self) -> int:
        """How many steps were skipped so far, if the optimizer counts them."""
        if isinstance(self._optimizer, LossScaleOptimizer):
            return int(self._optimizer.skipped_steps)
        return 0
