"""The seeds of Keras's random layers, such as Dropout, where several replicas share a step.

Each such layer has a seed and a counter, and every call takes the next number. Between steps all
replicas have the same counters: those of one process that has trained on the micro-batches of all
of them. In a step each begins at the number of its first micro-batch.
"""

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.seeds import StepShare
from ampcore.models.task import NonTrainable, Task

Tensor = Any

STATE_NAME: Final = "seed_generator_state"
"""The name of the variable of a keras.random.SeedGenerator."""


class DropoutSeeds:
    """Moves the counters of one replica within a step.

    Args:
        task: The networks with random layers.
        share: The micro-batches of this replica.
    """

    def __init__(self, task: Task, share: StepShare) -> None:
        self._task, self._share = task, share
        self._is_seed = [
            [variable.name == STATE_NAME for variable in network.state_variables]
            for network in task.networks
        ]
        self._is_needed = share.replicas > 1 and any(map(any, self._is_seed))

    @property
    def shifts(self) -> bool:
        """Whether this replica begins a step with other values than those between steps."""
        return self._is_needed and self._share.first > 0

    def before(self, values: NonTrainable, micro_batch: Batch, seed: Tensor) -> NonTrainable:
        """The values that this replica begins the step with; the same objects where no seed is.

        Args:
            values: The values between steps.
            micro_batch: Any examples of the size of a micro-batch.
            seed: Any seed.
        """
        if not self.shifts:
            return values
        # Only the counters of this forward pass are used: the rest is never computed.
        _, after = self._task.losses(self._task.weights(), values, micro_batch, seed)

        def shifted(value: Tensor, later: Tensor) -> Tensor:
            return value + self._share.first * (later - value)

        return self._map_seeds(shifted, values, after)

    def after(self, values: NonTrainable, began: NonTrainable, ended: NonTrainable) -> NonTrainable:
        """The values after the step, the same ones on all replicas.

        Args:
            values: The values between steps, before this one.
            began: What `before` returned.
            ended: The values after the micro-batches of this replica.
        """
        if not self._is_needed:
            return ended
        moved = self._map_seeds(lambda begin, end: end - begin, began, ended)
        found = self._map_seeds(
            lambda value, change: value + self._share.replicas * change, values, moved
        )
        rows = zip(found, ended, self._is_seed, strict=True)
        return [
            [own if is_seed else end for own, end, is_seed in zip(mine, ends, seeds, strict=True)]
            for mine, ends, seeds in rows
        ]

    def _map_seeds(
        self, function: Callable[[Tensor, Tensor], Tensor], one: NonTrainable, other: NonTrainable
    ) -> NonTrainable:
        """The function of two values where a seed is, and the first value elsewhere."""
        rows = zip(one, other, self._is_seed, strict=True)
        return [
            [
                function(tf.convert_to_tensor(first), tf.convert_to_tensor(second))
                if is_seed
                else first
                for first, second, is_seed in zip(*own, strict=True)
            ]
            for own in rows
        ]
