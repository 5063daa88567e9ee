"""What is trained: networks, and their losses as pure functions of weights and a batch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf

from ampcore.data.dataset import Batch

Tensor = Any
Weights = list[list[Tensor]]
"""Per network, the values of model.trainable_variables, in order."""
Held = list[list[Tensor]]
"""Per network, the values of model.non_trainable_variables: statistics and dropout seeds."""


@dataclass(frozen=True)
class Network:
    """A built keras.Model and its name in a spec; it has one optimizer and one loss scale."""

    name: str
    model: Any

    def __call__(
        self, weights: list[Tensor], held: list[Tensor], x: Tensor, *, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs on `x`, and the new held values; the same objects where nothing changed."""
        return call(self.model, weights, held, x, training=training)


class Task(ABC):
    """Networks and their losses. Nothing here assigns a variable."""

    metrics: ClassVar[tuple[str, ...]]
    """The names of what `measure` returns."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self.networks = tuple(networks)

    @abstractmethod
    def losses(
        self, weights: Weights, held: Held, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], Held]:
        """One float32 scalar loss per network in training, and the new held values.

        Held values that did not change are the same objects. `seed`, int32 (2,), is another
        one at every step and decides the noise that a task draws itself.
        """

    @abstractmethod
    def measure(self, weights: Weights, held: Held, batch: Batch) -> dict[str, Tensor]:
        """Float32 vectors (n,), one value per example, outside of training.

        "loss" is always there, "accuracy" where there is a right and a wrong.
        """

    def examples(self, batch_size: int) -> int:
        """The examples that a step on a batch of this size counts for in the throughput."""
        return batch_size

    def weights(self) -> Weights:
        """The trainable values as they stand: the variables themselves, not copies."""
        return [
            [variable.value for variable in network.model.trainable_variables]
            for network in self.networks
        ]

    def held(self) -> Held:
        """The non-trainable values as they stand: the variables themselves, not copies."""
        return [
            [variable.value for variable in network.model.non_trainable_variables]
            for network in self.networks
        ]


def call(
    model: Any, weights: list[Tensor], held: list[Tensor], x: Tensor, *, training: bool
) -> tuple[Tensor, list[Tensor]]:
    """A model's outputs on `x`, and its new held values; the same objects where unchanged."""
    # Keras would read variables anew, and then nobody could tell which values it changed.
    before = [tf.convert_to_tensor(value) for value in held]
    outputs, after = model.stateless_call(weights, before, x, training=training)
    rows = zip(held, before, after, strict=True)
    return outputs, [given if new is old else new for given, old, new in rows]
