"""The task of a network with a loss and metrics for each of its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import keras
import tensorflow as tf

from ampcore.data.examples import Batch
from ampcore.keras_internals import metric_direction, metric_function
from ampcore.models.stateless_call import StateUpdates
from ampcore.models.task import MetricStates, Network, NonTrainable, Task, Tensor, Weights
from ampcore.objectives import example_losses
from ampcore.objectives.loss_kinds import CrossEntropy
from ampspec.errors import InvalidModel

LOSS = "loss"
CROSS_ENTROPIES: Final = (
    keras.losses.BinaryCrossentropy,
    keras.losses.CategoricalCrossentropy,
)


@dataclass(frozen=True)
class Objective:
    """The loss and the metrics of one output.

    Attributes:
        loss: A keras.losses.Loss; None for an output without a loss.
        weight: Its factor in the total loss.
        metrics: Instances of keras.metrics.Metric with their variables.
        reshape_targets: Whether targets get the shape of the output: an autoencoder may return its
            input in another one.
    """

    loss: Any | None
    weight: float = 1.0
    metrics: tuple[Any, ...] = ()
    reshape_targets: bool = False


class SupervisedTask(Task):
    """One network; its loss is the weighted sum of its outputs' losses.

    The losses of layers, such as weight regularization, are added. Losses and metrics are computed
    in float32 in every precision policy.

    Args:
        network: The network; it may have any structure of inputs and outputs.
        objectives: One for each output, in the order of `named_outputs`, by its name.

    Attributes:
        metrics: "loss", with several outputs also "OUTPUT_loss", and the names of the metrics,
            with several outputs as "OUTPUT_METRIC".

    Raises:
        InvalidModel: Two metrics have the same name.
    """

    def __init__(self, network: Network, objectives: Mapping[str, Objective]) -> None:
        super().__init__([network])
        self._objectives = dict(objectives)
        self._loss_names = _loss_names(objectives)
        self._trackers = trackers(objectives)
        self.metrics = (LOSS, *self._loss_names.values(), *self._trackers)

    def losses(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], list[StateUpdates]]:
        """The weighted sum of the outputs' losses and those of the layers."""
        outputs, updates, layer_losses = self._call(weights, non_trainable, batch, training=True)
        output_losses = self._output_losses(outputs, batch)
        total = [self._objectives[name].weight * loss for name, loss in output_losses.items()]
        if not total and not layer_losses:
            expected = "a loss of an output, or a layer that adds one"
            raise InvalidModel("loss", expected=expected, received="none")
        return [tf.add_n([*total, *layer_losses])], [updates]

    def measure(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> dict[str, Tensor]:
        """The loss of each example, without the losses of layers and sample weights."""
        outputs, _, _ = self._call(weights, non_trainable, batch, training=False)
        targets = self._targets(batch, outputs)
        return {
            LOSS: tf.add_n(
                [
                    objective.weight * example_losses(objective.loss, targets[name], outputs[name])
                    for name, objective in self._objectives.items()
                    if objective.loss is not None
                ]
            )
        }

    def evaluate_examples(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The losses, the metrics of Keras that are means over examples, and the outputs."""
        outputs, _, _ = self._call(weights, non_trainable, batch, training=False)
        targets = self._targets(batch, outputs)
        losses = {
            name: example_losses(objective.loss, targets[name], outputs[name])
            for name, objective in self._objectives.items()
            if objective.loss is not None
        }
        weighted = [self._objectives[name].weight * loss for name, loss in losses.items()]
        metrics = {LOSS: tf.add_n(weighted)} if weighted else {}
        metrics |= {
            self._loss_names[name]: loss for name, loss in losses.items() if self._loss_names
        }
        for name, (output, metric) in self._trackers.items():
            values = _of_examples(metric, targets[output], _float32(outputs[output]))
            if values is not None:
                metrics[name] = values
        return metrics, {name: _float32(outputs[name]) for name in losses}

    def output_names(self) -> list[str]:
        """All outputs, also those without a loss."""
        return list(self._objectives)

    def output_losses(self) -> Mapping[str, Any]:
        """The outputs with a loss."""
        losses = {name: objective.loss for name, objective in self._objectives.items()}
        return {name: loss for name, loss in losses.items() if loss is not None}

    def loss_kind(self) -> Literal["cross_entropy", "squared"] | None:
        """The kind of the loss of a network with one output."""
        losses = [objective.loss for objective in self._objectives.values()]
        if len(losses) != 1:
            return None
        loss = losses[0]
        if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
            return "cross_entropy"
        if isinstance(loss, CrossEntropy) and loss.is_plain:
            return "cross_entropy"
        if isinstance(loss, CROSS_ENTROPIES) and not loss.label_smoothing:
            return "cross_entropy"
        return "squared" if isinstance(loss, keras.losses.MeanSquaredError) else None

    def initial_metrics(self) -> MetricStates:
        """Sums of losses, float64, and the variables of the Keras metrics."""
        sums = {name: tf.constant(0.0, tf.float64) for name in (LOSS, *self._loss_names.values())}
        states = {
            name: [tf.convert_to_tensor(value) for value in metric.stateless_reset_state()]
            for name, (_, metric) in self._trackers.items()
        }
        return sums, states, tf.constant(0.0, tf.float64)

    def update_metrics(
        self, states: MetricStates, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> MetricStates:
        """The state after another batch."""
        sums, variables, count = states
        outputs, _, of_layers = self._call(weights, non_trainable, batch, training=False)
        output_losses = self._output_losses(outputs, batch)
        total = tf.add_n(
            [
                *(self._objectives[name].weight * loss for name, loss in output_losses.items()),
                *of_layers,
            ]
        )
        losses = {LOSS: total} | {
            shown: output_losses[name]
            for name, shown in self._loss_names.items()
            if name in output_losses
        }
        size = tf.cast(tf.shape(batch.parts[0])[0], tf.float64)
        sums = {name: sums[name] + size * tf.cast(losses[name], tf.float64) for name in sums}
        targets = self._targets(batch, outputs)
        variables = {
            # As `fit` does, sample weights apply to losses alone.
            name: metric.stateless_update_state(
                variables[name], targets[output], _float32(outputs[output])
            )
            for name, (output, metric) in self._trackers.items()
        }
        return sums, variables, count + size

    def metric_values(self, states: MetricStates) -> dict[str, Tensor]:
        """The value of each metric, a scalar; of one with several values, each as NAME_INDEX."""
        sums, variables, count = states
        metrics = {name: total / count for name, total in sums.items()}
        for name, (_, metric) in self._trackers.items():
            values = tf.reshape(metric.stateless_result(variables[name]), [-1])
            if len(values) == 1:
                metrics[name] = values[0]
            else:
                metrics |= {f"{name}_{index}": value for index, value in enumerate(values)}
        return metrics

    def metric_direction(self, name: str) -> Literal["min", "max"] | None:
        """The direction that a metric of Keras states; most of them do."""
        _, metric = self._trackers.get(name, (None, None))
        directions: dict[str | None, Literal["min", "max"]] = {"up": "max", "down": "min"}
        return directions.get(metric_direction(metric))

    def _call(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, *, training: bool
    ) -> tuple[dict[str, Tensor], StateUpdates, list[Tensor]]:
        """The outputs by name, the state variables that change, and the losses of the layers."""
        outputs, updates, losses = self.networks[0].call_with_losses(
            weights[0], non_trainable[0], batch.x, training=training
        )
        by_name = dict(zip(self._objectives, flat_outputs(outputs), strict=True))
        return by_name, updates, losses

    def _output_losses(self, outputs: Mapping[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        targets = self._targets(batch, outputs)
        sample_weights = by_output(batch.sample_weight, list(self._objectives))
        losses = {
            name: tf.cast(
                objective.loss(targets[name], outputs[name], sample_weights.get(name)), tf.float32
            )
            for name, objective in self._objectives.items()
            if objective.loss is not None
        }
        for name, loss in losses.items():
            if loss.shape.rank:
                raise InvalidModel(
                    f"loss[{name!r}]",
                    expected="a loss that returns one number for a batch",
                    received=f"values of shape {tuple(loss.shape)}",
                )
        return losses

    def _targets(self, batch: Batch, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The targets of each output."""
        targets = by_output(batch.y, list(self._objectives))
        return {
            name: tf.reshape(target, tf.shape(outputs[name]))
            if self._objectives[name].reshape_targets
            else target
            for name, target in targets.items()
        }


def _of_examples(metric: Any, targets: Tensor, outputs: Tensor) -> Tensor | None:
    """The mean that a metric takes of each example, (n,); None of a metric of another kind."""
    if not isinstance(metric, keras.metrics.MeanMetricWrapper):
        return None
    function, arguments = metric_function(metric)
    values = tf.cast(function(targets, outputs, **arguments), tf.float32)
    if not values.shape.rank:
        return None
    return tf.reduce_mean(tf.reshape(values, [tf.shape(values)[0], -1]), axis=1)


def _float32(tensor: Tensor) -> Tensor:
    """Floats as float32, in which metrics are computed."""
    return tf.cast(tensor, tf.float32) if tensor.dtype.is_floating else tensor


def flat_outputs(outputs: Any) -> list[Tensor]:
    """The outputs of a model as a list; those of a dictionary in its order."""
    if isinstance(outputs, Mapping):
        return list(outputs.values())
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


def by_output(values: Any, names: Sequence[str]) -> dict[str, Tensor]:
    """Targets or sample weights by the output that they belong to; () has none."""
    if isinstance(values, Mapping):
        return dict(values)
    if isinstance(values, list | tuple):
        return dict(zip(names, values, strict=False))
    return dict.fromkeys(names, values)


def trackers(objectives: Mapping[str, Objective]) -> dict[str, tuple[str, Any]]:
    """By its name in the results, each metric and the output that it belongs to.

    Raises:
        InvalidModel: Two metrics have the same name, or one has that of a loss.
    """
    prefix = len(objectives) > 1
    by_name: dict[str, tuple[str, Any]] = {}
    for output, objective in objectives.items():
        for metric in objective.metrics:
            name = f"{output}_{metric.name}" if prefix else metric.name
            if name in by_name or name in {LOSS, *_loss_names(objectives).values()}:
                raise InvalidModel(
                    "metrics",
                    expected="a different name for each metric, and none of a loss",
                    received=f"{name!r} twice",
                )
            by_name[name] = output, metric
    return by_name


def _loss_names(objectives: Mapping[str, Objective]) -> dict[str, str]:
    """With several outputs: the metric that is the loss of each."""
    if len(objectives) == 1:
        return {}
    return {
        name: f"{name}_{LOSS}"
        for name, objective in objectives.items()
        if objective.loss is not None
    }
