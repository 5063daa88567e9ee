"""Divides a run into epochs and steps, and into blocks of steps."""

from dataclasses import dataclass
from typing import Final, Self

from ampspec.training.training import Train

BLOCK_S: Final = 0.5
"""The target duration of a block of steps."""
GROWTH: Final = 8
"""The maximum growth from one block to the next, because the times of short blocks are noisy."""


@dataclass(frozen=True)
class Plan:
    """The first step is 0; an epoch is `steps_per_epoch` whole batches."""

    total_steps: int
    steps_per_epoch: int
    eval_every_epochs: int

    @classmethod
    def from_spec(cls, train: Train, steps_per_epoch: int) -> Self:
        """`train.steps` if given, else whole epochs."""
        total = train.steps or train.epochs * steps_per_epoch
        return cls(total, steps_per_epoch, train.eval_every_epochs)

    @property
    def epochs(self) -> int:
        """The number of epochs, the last one of which may have fewer steps."""
        return -(-self.total_steps // self.steps_per_epoch)

    def position(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and its batch in that epoch."""
        return divmod(step, self.steps_per_epoch)

    def left_in_epoch(self, step: int) -> int:
        """The steps from `step` to the end of its epoch or of the run."""
        _, batch = self.position(step)
        return min(self.steps_per_epoch - batch, self.total_steps - step)

    def evaluates_after(self, done: int) -> bool:
        """Whether the model is evaluated when `done` steps are done."""
        epochs, into_epoch = self.position(done)
        at_epoch_end = into_epoch == 0 and epochs % self.eval_every_epochs == 0
        return at_epoch_end or done == self.total_steps


class AdaptiveBlockSize:
    """The number of steps in the next block: as many as take about `block_s` seconds.

    The first block is one step, so that the first values arrive quickly.
    """

    def __init__(self, block_s: float = BLOCK_S) -> None:
        self._block_s = block_s
        self._size = 1

    def next_size(self, remaining: int) -> int:
        """The steps of the next block, at most `remaining`."""
        return min(self._size, remaining)

    def observe(self, steps: int, seconds: float) -> None:
        """Adapt to a block of `steps` that took `seconds`."""
        fitting = int(self._block_s * steps / max(seconds, 1e-9))
        self._size = max(1, min(fitting, self._size * GROWTH))
