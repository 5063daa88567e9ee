"""Which steps a run consists of, and after which of them the model is evaluated."""

from dataclasses import dataclass
from typing import Self

from ampcore.spec.training import Train


@dataclass(frozen=True)
class Plan:
    """The first step is 0; an epoch is `steps_per_epoch` whole batches."""

    total_steps: int
    steps_per_epoch: int
    eval_every_epochs: int

    @classmethod
    def of(cls, train: Train, steps_per_epoch: int) -> Self:
        """`train.steps` when it is given, else whole epochs."""
        total = train.steps or train.epochs * steps_per_epoch
        return cls(total, steps_per_epoch, train.eval_every_epochs)

    def place(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and its batch in that epoch."""
        return divmod(step, self.steps_per_epoch)

    def left_in_epoch(self, step: int) -> int:
        """The steps from `step` to the end of its epoch or of the run."""
        _, batch = self.place(step)
        return min(self.steps_per_epoch - batch, self.total_steps - step)

    def evaluates_after(self, done: int) -> bool:
        """Whether the model is evaluated when `done` steps are done."""
        epochs, into_epoch = self.place(done)
        at_epoch_end = into_epoch == 0 and epochs % self.eval_every_epochs == 0
        return at_epoch_end or done == self.total_steps
