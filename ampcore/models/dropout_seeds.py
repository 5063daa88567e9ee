"""The seeds of Keras's random layers, such as Dropout, where several ranks share a step.

Each such layer has a seed and a counter, and every call takes the next number. Between steps all
ranks have the same counters: those of one process that has trained on the micro-batches of all
of them. In a step each begins at the number of its first micro-batch.
"""

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.seeds import MicroBatchShard
from ampcore.models.stateless_call import StateUpdates
from ampcore.models.task import NonTrainable, Task

Tensor = Any

STATE_NAME: Final = "seed_generator_state"
"""The name of the variable of a keras.random.SeedGenerator."""


class DropoutSeeds:
    """Moves the counters of one rank within a step.

    Args:
        task: The networks with random layers.
        shard: The micro-batches of this rank.
    """

    def __init__(self, task: Task, shard: MicroBatchShard) -> None:
        self._task, self._shard = task, shard
        self._counters = [
            [
                index
                for index, variable in enumerate(network.state_variables)
                if variable.name == STATE_NAME
            ]
            for network in task.networks
        ]
        self._is_needed = shard.ranks > 1 and any(self._counters)

    @property
    def shifts(self) -> bool:
        """Whether this rank begins a step with other values than those between steps."""
        return self._is_needed and self._shard.first > 0

    def before(self, values: NonTrainable, micro_batch: Batch, seed: Tensor) -> NonTrainable:
        """The values that this rank begins the step with; the same objects where no seed is.

        Args:
            values: The values between steps.
            micro_batch: Any examples of the size of a micro-batch.
            seed: Any seed.
        """
        if not self.shifts:
            return values
        # Only the counters of this forward pass are used: the rest is never computed.
        _, updates = self._task.losses(self._task.weights(), values, micro_batch, seed)
        shifted = [list(network) for network in values]
        for network, index in self._moving(updates):
            value = tf.convert_to_tensor(values[network][index])
            moved = tf.convert_to_tensor(updates[network][index])
            shifted[network][index] = value + self._shard.first * (moved - value)
        return shifted

    def after(
        self, values: NonTrainable, first_values: NonTrainable, updates: Sequence[StateUpdates]
    ) -> list[StateUpdates]:
        """The updates of the step, the same counters on all ranks.

        Args:
            values: The values between steps, before this one.
            first_values: The values that `before` returned.
            updates: Those of the micro-batches of this rank.
        """
        counted = [dict(network) for network in updates]
        if not self._is_needed:
            return counted
        for network, index in self._moving(updates):
            value, first = (
                tf.convert_to_tensor(state[network][index]) for state in (values, first_values)
            )
            moved = tf.convert_to_tensor(updates[network][index]) - first
            counted[network][index] = value + self._shard.ranks * moved
        return counted

    def _moving(self, updates: Sequence[StateUpdates]) -> list[tuple[int, int]]:
        """The network and the index of each counter that these updates change."""
        return [
            (network, index)
            for network, counters in enumerate(self._counters)
            for index in counters
            if index in updates[network]
        ]
