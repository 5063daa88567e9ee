"""Task: the networks to train, and their losses as pure functions of weights and a batch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import tensorflow as tf

from ampcore.data.examples import Batch
from ampcore.distributed.row_shards import RowShard
from ampcore.models.layer_losses import float32_regularizers, sum_in_float32
from ampcore.models.stateless_call import StateUpdates, call_stateless
from ampcore.precision.layers.float8_products import Float8Scaling
from ampcore.precision.layers.in_place import InPlaceDtypes, float32_dtypes
from ampcore.precision.layers.layer_products import installed_products

Tensor = Any
Weights = list[list[Tensor]]
"""Per network, the values of model.trainable_variables, in order."""
NonTrainable = list[list[Tensor]]
"""Per network, the values of its state variables: statistics, dropout seeds."""
MetricStates = Any
"""Tensors: what the metrics of a task keep from batch to batch."""


NO_DTYPES: Final = InPlaceDtypes()


@dataclass(frozen=True)
class Network:
    """A built keras.Model and its name in a spec; it has one optimizer and one loss scale."""

    name: str
    model: Any
    dtypes: InPlaceDtypes = NO_DTYPES
    """Those that the layers have only while the model is called; without any, they keep theirs."""
    assigned: tuple[int, ...] = ()
    """The indices of trainable variables that a call in training assigns."""
    is_given: bool = False
    """Whether it is a custom model, which may lack what saving it needs."""
    in_float32: bool = False
    """Whether it computes in float32, whatever its weights are stored in."""

    @property
    def float8_scalings(self) -> list[Float8Scaling]:
        """The scales of its layers that compute in float8 with delayed scaling."""
        if self.in_float32:
            return []
        products = [*installed_products(self.model), *self.dtypes.products]
        scalings = [product.scaling for product in products if product.scaling is not None]
        return [scaling for scaling in scalings if scaling.history is not None]

    @property
    def state_variables(self) -> list[Any]:
        """The variables that a forward pass changes: not trainable, or assigned in a call."""
        trainable = self.model.trainable_variables
        return [
            *self.model.non_trainable_variables,
            *(trainable[index] for index in self.assigned),
        ]

    def weights(self) -> list[Tensor]:
        """The trainable variables themselves; in float32, copies of those in 16 bits."""
        values = [variable.value for variable in self.model.trainable_variables]
        if not self.in_float32:
            return values
        return [
            tf.cast(value, tf.float32) if value.dtype in (tf.float16, tf.bfloat16) else value
            for value in values
        ]

    def as_float32(self) -> "Network":
        """The same network and variables, computed in float32."""
        return replace(self, dtypes=float32_dtypes(self.model), in_float32=True)

    def __call__(
        self, weights: list[Tensor], non_trainable: list[Tensor], x: Tensor, *, training: bool
    ) -> tuple[Tensor, StateUpdates]:
        """The outputs on `x`, and the state variables that change: see `call_stateless`."""
        outputs, updates, _ = self.call_with_losses(weights, non_trainable, x, training=training)
        return outputs, updates

    def call_with_losses(
        self, weights: list[Tensor], non_trainable: list[Tensor], x: Any, *, training: bool
    ) -> tuple[Any, StateUpdates, list[Tensor]]:
        """As the call, and third the losses that layers add, float32 scalars."""
        with self.dtypes.applied(), float32_regularizers(self.model):
            outputs, updates, losses = call_stateless(
                self.model,
                weights,
                non_trainable,
                x,
                training=training,
                assigned=self.assigned,
            )
            return outputs, updates, sum_in_float32(losses)


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
    ) -> tuple[list[Tensor], list[StateUpdates]]:
        """The training losses of one batch, differentiable by `weights`.

        Args:
            weights: Of each network, the values of its trainable variables.
            non_trainable: Of each network, the values of its other variables.
            batch: The examples.
            seed: Int64 (2,), different in every micro-batch: for the noise that a task draws
                itself.

        Returns:
            One float32 scalar for each network; and of each network the next values of the state
            variables that the forward pass changes, by their index in `Network.state_variables`.
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

    def evaluate_examples(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The metrics of each example whose means are the metrics of an evaluation, and outputs.

        Returns:
            By name, a float32 vector (n,): "loss", and those metrics that are means over examples;
            and the float32 outputs that `output_losses` names.
        """
        return self.measure(weights, non_trainable, batch), {}

    def output_names(self) -> list[str]:
        """All outputs, in the order in which targets in a list belong to them."""
        return list(self.output_losses())

    def output_losses(self) -> Mapping[str, Any]:
        """The outputs that are compared with targets: the loss of each; None: cross-entropy."""
        return {}

    def loss_kind(self) -> Literal["cross_entropy", "squared"] | None:
        """The kind of the loss, where the best constant prediction has a known loss."""
        return None

    def initial_metrics(self) -> MetricStates:
        """The state of all metrics before the first example."""
        sums = {name: tf.constant(0.0, tf.float64) for name in self.metrics}
        return sums, tf.constant(0.0, tf.float64)

    def update_metrics(
        self, states: MetricStates, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> MetricStates:
        """The state after another batch, whose size may be unknown while it is traced."""
        sums, count = states
        metrics = self.measure(weights, non_trainable, batch)
        # Means over many examples lose digits in float32.
        sums = {
            name: total + tf.reduce_sum(tf.cast(metrics[name], tf.float64))
            for name, total in sums.items()
        }
        return sums, count + tf.cast(tf.shape(metrics["loss"])[0], tf.float64)

    def metric_values(self, states: MetricStates) -> dict[str, Tensor]:
        """The value of each metric, a scalar."""
        sums, count = states
        return {name: total / count for name, total in sums.items()}

    def metric_direction(self, name: str) -> Literal["min", "max"] | None:
        """Whether lower or higher values of this metric are better, if its name does not say it."""
        return None

    def examples_per_step(self, batch_size: int) -> int:
        """The examples that throughput counts for a step on a batch of this size."""
        return batch_size

    @contextmanager
    def applied_dtypes(self) -> Iterator[None]:
        """A context in which the layers have the dtypes of their networks.

        A backward pass may call layers, too: `keras.remat` computes activations again.
        """
        with ExitStack() as stack:
            for network in self.networks:
                stack.enter_context(network.dtypes.applied())
            yield

    def weights(self) -> Weights:
        """Of each network, what `Network.weights` returns."""
        return [network.weights() for network in self.networks]

    def shards(self) -> Mapping[int, RowShard]:
        """The trainable variables that hold only this rank's rows of a table, by `id`."""
        return {}

    def without_communication(self, rows_of: "Task | None" = None) -> "Task":
        """The task of a rank that computes alone, with the rows that `fetch_rows` has fetched.

        The networks and their variables are the same.

        Args:
            rows_of: Another such task, whose fetched rows it has too; None: it has its own.
        """
        return self

    def fetch_rows(self, batch: Batch) -> None:  # noqa: B027 - most tasks have all rows
        """Fetch the rows of tables that a batch names; all ranks call it together."""

    def non_trainable(self) -> NonTrainable:
        """The state variables themselves, not copies."""
        return [
            [variable.value for variable in network.state_variables] for network in self.networks
        ]


def float32_view(task: Task) -> Task:
    """The same task with the same variables, computed in float32."""
    view = copy(task)
    view.networks = tuple(network.as_float32() for network in task.networks)
    return view
