"""Which examples each step trains on: the order of an epoch, and the part of one rank in it."""

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

SEED_SALT: Final = 2
"""Salts the generator, so that other users of the job's seed draw other numbers."""


class StepOrder(Protocol):
    """The numbers of the examples of each step."""

    def of_step(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The numbers of the examples of one step."""


class ExampleOrder:
    """The order of the training examples of an epoch: a permutation by (seed, epoch), or none.

    Of `count` examples only whole steps of `step_examples` are used.
    """

    def __init__(self, count: int, step_examples: int, *, shuffle: bool, seed: int) -> None:
        self.shuffle, self.step_examples = shuffle, step_examples
        self.is_sequential = not shuffle
        self.steps = count // step_examples
        self._count, self._seed = count, seed

    def of_epoch(self, epoch: int) -> NDArray[np.int64]:
        """The indices of the examples of an epoch, in order."""
        trained = self.steps * self.step_examples
        if not self.shuffle:
            return np.arange(trained)
        order = np.random.default_rng([self._seed, SEED_SALT, epoch]).permutation(self._count)
        return order[:trained]

    def of_step(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The indices of the examples of one step."""
        start = batch * self.step_examples
        return self.of_epoch(epoch)[start : start + self.step_examples]


class PartOrder:
    """The part of one rank in the order of an epoch.

    The examples of a step are divided into consecutive parts of equal size, by rank: the ranks
    together train on the same examples as one process does.
    """

    is_sequential = False

    def __init__(self, order: ExampleOrder, rank: int, ranks: int) -> None:
        self._order, self._rank, self._ranks = order, rank, ranks
        self.shuffle, self.steps = order.shuffle, order.steps
        self.step_examples = order.step_examples // ranks

    def of_epoch(self, epoch: int) -> NDArray[np.int64]:
        """The indices of this rank's examples of an epoch, in order."""
        order = self._order.of_epoch(epoch)
        parts = order.reshape(self.steps, self._ranks, self.step_examples)
        return parts[:, self._rank].reshape(-1)

    def of_step(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The indices of this rank's examples of one step."""
        start = self._rank * self.step_examples
        return self._order.of_step(epoch, batch)[start : start + self.step_examples]


class BatchOrder:
    """The order in which batches arrive: their examples are numbered in that order."""

    shuffle = False

    def __init__(self, steps: int, step_examples: int, part: tuple[int, int] = (0, 1)) -> None:
        rank, ranks = part
        self.steps, self.step_examples = steps, step_examples // ranks
        self._all_examples, self._start = step_examples, rank * self.step_examples

    def of_step(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The numbers of this rank's examples of one step, from the start of its epoch."""
        start = batch * self._all_examples + self._start
        return np.arange(start, start + self.step_examples)
