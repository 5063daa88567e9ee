"""Learning rates that change from step to step.

A schedule is a function of the number of updates so far, the optimizer's `iterations`, and has no
state of its own: a skipped step does not advance it, and reading it changes nothing. Steps are
counted as integers and become float32 only as fractions; beyond 2^24 steps a fraction is off by
at most one part in 2^23, so that neighbouring steps may share a rate.
"""

from collections.abc import Sequence
from typing import Any, Self

import tensorflow as tf
from keras.optimizers.schedules import CosineDecay, ExponentialDecay, LearningRateSchedule

from ampspec.objectives.optimizer import Constant, Cosine, Exponential, Schedule, Step

Tensor = Any


def build(schedule: Schedule, learning_rate: float, total_steps: int) -> Any:
    """The learning rate argument of a Keras optimizer, for a run of `total_steps` updates."""
    warmup_steps = schedule.warmup_steps
    decay: Any
    match schedule:
        case Constant():
            if not warmup_steps:
                return learning_rate
            decay = StepDecay(learning_rate, (), 1.0)
        case Cosine():
            # float: Keras makes an int32 of an integer.
            decay_steps = float(max((schedule.end_step or total_steps) - warmup_steps, 1))
            decay = CosineDecay(learning_rate, decay_steps, alpha=schedule.final_fraction)
        case Exponential():
            decay = ExponentialDecay(
                learning_rate, float(schedule.decay_steps), schedule.decay_rate
            )
        case Step():
            boundaries = [boundary - warmup_steps for boundary in schedule.boundaries]
            decay = StepDecay(learning_rate, boundaries, schedule.factor)
    return Warmup(decay, learning_rate, warmup_steps) if warmup_steps else decay


class Warmup(LearningRateSchedule):  # type: ignore[misc]
    """A linear rise to `learning_rate`, then `decay`, whose steps count from there.

    Step 0 trains at 1 / warmup_steps of the rate; the last step of the rise, and the first step
    after it, at the full rate.
    """

    def __init__(self, decay: Any, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        self.decay, self.learning_rate, self.warmup_steps = decay, learning_rate, warmup_steps

    def __call__(self, step: Any) -> Tensor:
        """The rate of a step, float32."""
        step = tf.cast(step, tf.int64)
        risen = tf.cast(step + 1, tf.float32) / float(self.warmup_steps)
        later = self.decay(tf.maximum(step - self.warmup_steps, 0))
        return tf.where(step < self.warmup_steps, self.learning_rate * risen, later)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The schedule that `get_config` described; `after` is an earlier name of `decay`."""
        return cls(**{"decay" if name == "after" else name: config[name] for name in config})

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            "decay": self.decay,
            "learning_rate": self.learning_rate,
            "warmup_steps": self.warmup_steps,
        }


class StepDecay(LearningRateSchedule):  # type: ignore[misc]
    """`learning_rate` times `factor` at each of the `boundaries`, from that step on.

    Keras's PiecewiseConstantDecay changes one step later, and adds half a dozen operations to
    every training step for each boundary; here their number is constant.
    """

    def __init__(self, learning_rate: float, boundaries: Sequence[int], factor: float) -> None:
        super().__init__()
        self.learning_rate, self.boundaries, self.factor = learning_rate, boundaries, factor

    def __call__(self, step: Any) -> Tensor:
        """The rate of a step, float32."""
        step = tf.cast(step, tf.int64)
        rates = [self.learning_rate * self.factor**n for n in range(len(self.boundaries) + 1)]
        passed = step >= tf.constant(self.boundaries, tf.int64)
        return tf.gather(tf.constant(rates, tf.float32), tf.math.count_nonzero(passed))

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            "learning_rate": self.learning_rate,
            "boundaries": self.boundaries,
            "factor": self.factor,
        }
