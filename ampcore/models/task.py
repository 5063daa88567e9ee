"""Task: the networks to train, and their losses as pure functions of weights and a batch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import tensorflow as tf

from ampcore.data.examples import Batch
from ampcore.distributed.row_shards import RowShard
from ampcore.precision.float8_products import Float8Scaling
from ampcore.precision.in_place import InPlaceDtypes
from ampcore.precision.layer_products import installed_products

Tensor = Any
Weights = list[list[Tensor]]
"""Per network, the values of model.trainable_variables, in order."""
NonTrainable = list[list[Tensor]]
"""Per network, the values of model.non_trainable_variables: statistics and dropout seeds."""
MetricStates = Any
"""Tensors: what the metrics of a task keep from batch to batch."""


NO_DTYPES: Final = InPlaceDtypes()


@dataclass(frozen=True)
class Network:
    """A built keras.Model and its name in a spec; it has one optimizer and one loss scale."""

    name: str
    model: Any
    dtypes: InPlaceDtypes = NO_DTYPES
    """Those of a model whose layers do not have their dtypes themselves."""

    @property
    def float8_scalings(self) -> list[Float8Scaling]:
        """The scales of its layers that compute in float8 with delayed scaling."""
        products = [*installed_products(self.model), *self.dtypes.products]
        found = [one.scaling for one in products if one.scaling is not None]
        return [scaling for scaling in found if scaling.history is not None]

    def __call__(
        self, weights: list[Tensor], non_trainable: list[Tensor], x: Tensor, *, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs on `x`, and the next non-trainable values: see `call_stateless`."""
        with self.dtypes.applied():
            return call_stateless(self.model, weights, non_trainable, x, training=training)

    def call_with_losses(
        self, weights: list[Tensor], non_trainable: list[Tensor], x: Any, *, training: bool
    ) -> tuple[Any, list[Tensor], list[Tensor]]:
        """As the call, and third the losses that layers add, such as weight regularization."""
        with self.dtypes.applied():
            return _call_stateless(self.model, weights, non_trainable, x, training=training)


class Task(ABC):
    """Networks, their losses and metrics. Its methods assign no variables.

    A metric that is the mean of one number for each example is computed by `measure`; a task with
    others, such as an area under a curve, overrides the three methods after it.
    """

    metrics: tuple[str, ...]
    """The names of the metrics; the first is "loss"."""

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
        """The loss of each example outside of training, and the other metrics that are means.

        Returns:
            By name, a float32 vector (n,): "loss", and "accuracy" where a prediction is right or
            wrong.
        """

    def initial_metrics(self) -> MetricStates:
        """The state of all metrics before the first example."""
        sums = {name: tf.constant(0.0, tf.float64) for name in self.metrics}
        return sums, tf.constant(0.0, tf.float64)

    def update_metrics(
        self, states: MetricStates, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> MetricStates:
        """The state after another batch, whose size may be unknown while it is traced."""
        sums, count = states
        found = self.measure(weights, non_trainable, batch)
        # Means over many examples lose digits in float32.
        sums = {
            name: total + tf.reduce_sum(tf.cast(found[name], tf.float64))
            for name, total in sums.items()
        }
        return sums, count + tf.cast(tf.shape(found["loss"])[0], tf.float64)

    def metric_values(self, states: MetricStates) -> dict[str, Tensor]:
        """The value of each metric, a scalar."""
        sums, count = states
        return {name: total / count for name, total in sums.items()}

    def better(self, name: str) -> Literal["min", "max"] | None:
        """Whether lower or higher values of this metric are better, if its name does not say it."""
        return None

    def examples_per_step(self, batch_size: int) -> int:
        """The examples that throughput counts for a step on a batch of this size."""
        return batch_size

    def weights(self) -> Weights:
        """The trainable variables themselves, not copies."""
        return [
            [variable.value for variable in network.model.trainable_variables]
            for network in self.networks
        ]

    def shards(self) -> Mapping[int, RowShard]:
        """The trainable variables that hold only this replica's rows of a table, by `id`."""
        return {}

    def without_communication(self, rows_of: "Task | None" = None) -> "Task":
        """The task of a replica that computes alone, with the rows that `fetch_rows` has fetched.

        The networks and their variables are the same.

        Args:
            rows_of: Another such task, whose fetched rows it has too; None: it has its own.
        """
        return self

    def fetch_rows(self, batch: Batch) -> None:  # noqa: B027 - most tasks have all rows
        """Fetch the rows of tables that a batch names; all replicas call it together."""

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
    outputs, after, _ = _call_stateless(model, weights, non_trainable, x, training=training)
    return outputs, after


def _call_stateless(
    model: Any, weights: list[Tensor], non_trainable: list[Tensor], x: Any, *, training: bool
) -> tuple[Any, list[Tensor], list[Tensor]]:
    # Keras would read the variables again, so that unchanged values could not be recognised.
    before = [tf.convert_to_tensor(value) for value in non_trainable]
    # As in `fit`: a subclassed model need not have the argument.
    named = {"training": training} if model._call_has_training_arg else {}
    outputs, after, losses = model.stateless_call(weights, before, x, return_losses=True, **named)
    rows = zip(non_trainable, before, after, strict=True)
    return outputs, [given if new is old else new for given, old, new in rows], losses
