"""Task: the networks to train, and their losses as pure functions of weights and a batch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf

from ampcore.data.dataset import Batch

Tensor = Any
Weights = list[list[Tensor]]
"""Per network, the values of model.trainable_variables, in order."""
NonTrainable = list[list[Tensor]]
"""Per network, the values of model.non_trainable_variables: statistics and dropout seeds."""


@dataclass(frozen=True)
class Network:
    """A built keras.Model and its name in a spec; it has one optimizer and one loss scale."""

    name: str
    model: Any

    def __call__(
        self, weights: list[Tensor], non_trainable: list[Tensor], x: Tensor, *, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs on `x`, and the next non-trainable values: see `call_stateless`."""
        return call_stateless(self.model, weights, non_trainable, x, training=training)


class Task(ABC):
    """Networks and their losses. Its methods assign no variables."""

    metrics: ClassVar[tuple[str, ...]]
    """The names of the metrics that `measure` returns."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self.networks = tuple(networks)

    @abstractmethod
    def losses(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], NonTrainable]:
        """The training losses of one batch, differentiable by `weights`.

        Args:
            weights: Of each network, the values of its trainable variables.
            non_trainable: Of each network, the values of its other variables.
            batch: The examples.
            seed: Int64 (2,), different in every micro-batch: for the noise that a task draws
                itself.

        Returns:
            One float32 scalar for each network, and the next non-trainable values: the same
            objects where nothing changed.
        """

    @abstractmethod
    def measure(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> dict[str, Tensor]:
        """The metrics of each example, outside of training.

        Returns:
            By name, a float32 vector (n,): "loss", and "accuracy" where a prediction is right or
            wrong.
        """

    def examples_per_step(self, batch_size: int) -> int:
        """The examples that throughput counts for a step on a batch of this size."""
        return batch_size

    def weights(self) -> Weights:
        """The trainable variables themselves, not copies."""
        return [
            [variable.value for variable in network.model.trainable_variables]
            for network in self.networks
        ]

    def non_trainable(self) -> NonTrainable:
        """The non-trainable variables themselves, not copies."""
        return [
            [variable.value for variable in network.model.non_trainable_variables]
            for network in self.networks
        ]


def call_stateless(
    model: Any, weights: list[Tensor], non_trainable: list[Tensor], x: Tensor, *, training: bool
) -> tuple[Tensor, list[Tensor]]:
    """Call a model without assigning its variables.

    Returns:
        The outputs on `x`, and the next non-trainable values: the same objects where nothing
        changed.
    """
    # Keras would read the variables again, so that unchanged values could not be recognised.
    before = [tf.convert_to_tensor(value) for value in non_trainable]
    outputs, after = model.stateless_call(weights, before, x, training=training)
    rows = zip(non_trainable, before, after, strict=True)
    return outputs, [given if new is old else new for given, old, new in rows]
