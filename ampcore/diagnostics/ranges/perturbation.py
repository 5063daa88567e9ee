"""Finds layers that a number format would harm, by rounding one layer at a time.

No reference run is needed: the inputs, the weights and the outputs of a layer are rounded to the
format, and so are the gradients that pass there, at the loss scale; all other layers compute in
float32. The change of the loss and of the gradients is measured on one batch, with the same noise.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final

import tensorflow as tf

from ampcore.data import Batch
from ampcore.diagnostics.layer_outputs import LayerRef, replaced_layer_calls, variable_owners
from ampcore.diagnostics.loss_gradients import first_micro_batch, loss_gradients
from ampcore.diagnostics.ranges.range_probe import (
    EXPONENT_BIAS,
    MANTISSA_BITS,
    exponent_codes,
    layer_dtypes,
)
from ampcore.models.task import Task, Weights, float32_view
from ampcore.precision.finite import dense_values
from ampcore.precision.layers.layer_paths import walk_layers
from ampspec.precision.layer_dtypes import SHAPE_ONLY_LAYERS
from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS, NumberFormat

Tensor = Any

RISKY_CHANGE: Final = 0.1
"""A layer is risky if rounding it changes the gradients by more than this share of their norm.

Rounding a layer whose values suit the format changes them by about its relative precision: 0.001 in
float16, 0.01 in bfloat16.
"""
NO_LAYER: Final = -1


@dataclass(frozen=True)
class LayerPerturbation:
    """What rounding one layer does; a change that is not finite is infinite."""

    network: str
    layer: str
    kind: str
    loss_change: float
    """The change of the sum of the losses, relative to it."""
    gradient_change: float
    """The norm of the change of all gradients, relative to their norm."""

    @property
    def is_risky(self) -> bool:
        """Whether the layer should be kept in float32."""
        return not self.gradient_change <= RISKY_CHANGE

    def to_json(self) -> dict[str, Any]:
        """Every field, and whether the layer is risky."""
        return asdict(self) | {"is_risky": self.is_risky}


class PerturbationTest:
    """Rounds the layers of a task, one at a time.

    One compiled function: the layer that is rounded is an argument.

    Args:
        task: What is to be trained.
        number_format: The name of one of `NUMBER_FORMATS`.
        accumulate: The micro-batches of a step; the first one is used.
    """

    def __init__(self, task: Task, number_format: str, accumulate: int = 1) -> None:
        self._task, self._accumulate = float32_view(task), accumulate
        self._format = NUMBER_FORMATS[number_format]
        self._layers = _layers_to_round(task)
        self._numbers = {layer: number for number, layer in enumerate(self._layers)}
        self._owners = variable_owners(task)
        self._function = tf.function(self._loss_and_gradients, autograph=False)

    def __call__(
        self, scales: Sequence[float], batch: Batch, seed: Tensor
    ) -> list[LayerPerturbation]:
        """The changes by each layer, the largest first.

        Args:
            scales: The loss scale of each network.
            batch: All examples of the step.
            seed: Its seed.
        """
        scales_of_losses = tf.constant(list(scales), tf.float32)
        inputs = (scales_of_losses, *first_micro_batch(batch, seed, self._accumulate))
        loss, gradients = self._function(tf.constant(NO_LAYER), *inputs)
        norm = float(tf.linalg.global_norm(gradients))
        perturbations = []
        for number, layer in enumerate(self._layers):
            changed_loss, changed = self._function(tf.constant(number), *inputs)
            difference = [new - old for new, old in zip(changed, gradients, strict=True)]
            perturbations.append(
                LayerPerturbation(
                    *layer,
                    _relative(abs(float(changed_loss) - float(loss)), abs(float(loss))),
                    _relative(float(tf.linalg.global_norm(difference)), norm),
                )
            )
        return sorted(perturbations, key=lambda layer: -layer.gradient_change)

    def _loss_and_gradients(
        self, chosen: Tensor, scales: Tensor, batch: Batch, seed: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        names = [network.name for network in self._task.networks]
        by_network = dict(zip(names, tf.unstack(scales), strict=True))

        def rounded(layer: LayerRef, value: Any) -> Any:
            number = self._numbers.get(layer)
            if number is None or not tf.is_tensor(value) or value.dtype != tf.float32:
                return value
            is_chosen = tf.equal(chosen, number)
            return round_if(is_chosen, value, by_network[layer.network], self._format)

        def rounding(layer: LayerRef, call: Any) -> Any:
            def rounded_call(*args: Any, **kwargs: Any) -> Any:
                args, kwargs = tf.nest.map_structure(lambda x: rounded(layer, x), (args, kwargs))
                return tf.nest.map_structure(lambda x: rounded(layer, x), call(*args, **kwargs))

            return rounded_call

        def rounded_weights(weights: Weights) -> Weights:
            return [
                [
                    rounded(self._owners[id(variable)], value)
                    if id(variable) in self._owners
                    else value
                    for variable, value in zip(
                        network.model.trainable_variables, values, strict=True
                    )
                ]
                for network, values in zip(self._task.networks, weights, strict=True)
            ]

        with replaced_layer_calls(self._task, rounding):
            gradients = loss_gradients(
                *(self._task, self._task.non_trainable(), batch, seed),
                replace_weights=rounded_weights,
            )
        return tf.add_n(gradients.losses), dense_values([*chain(*gradients.variables)])


def _layers_to_round(task: Task) -> list[LayerRef]:
    """The layers whose values may be rounded; not those that the policy keeps in float32."""
    dtypes = layer_dtypes(task)
    is_mixed = set(dtypes.values()) != {"float32"}
    return [
        LayerRef(network.name, entry.info.path, entry.info.kind)
        for network in task.networks
        for entry in walk_layers(network.model)
        if entry.info.kind not in SHAPE_ONLY_LAYERS
        and not (is_mixed and dtypes[network.name, entry.info.path] == "float32")
    ]


def round_if(chosen: Tensor, value: Tensor, scale: Tensor, limits: NumberFormat) -> Tensor:
    """The value rounded to a format where `chosen`, and its gradient too, times the loss scale."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def rounded(x: Tensor) -> Any:
        def gradient(upstream: Tensor) -> Tensor:
            return tf.where(chosen, round_to(upstream * scale, limits) / scale, upstream)

        return tf.where(chosen, round_to(x, limits), x), gradient

    return rounded(value)


def round_to(value: Tensor, limits: NumberFormat) -> Tensor:
    """Float32 numbers rounded to the nearest number of a format, ties to even.

    Numbers beyond the largest one become infinite. The spacing is at least 2^-126, which is coarser
    than that of the smallest bfloat16 numbers.
    """
    code = tf.maximum(exponent_codes(value), limits.min_normal_exponent + EXPONENT_BIAS)
    code = tf.maximum(code - limits.mantissa_bits, 1)
    spacing = tf.bitcast(tf.bitwise.left_shift(code, MANTISSA_BITS), tf.float32)
    rounded = tf.round(value / spacing) * spacing
    beyond = tf.abs(rounded) > tf.constant(limits.largest, tf.float32)
    return tf.where(beyond, tf.sign(rounded) * math.inf, rounded)


def _relative(change: float, whole: float) -> float:
    if not (math.isfinite(change) and math.isfinite(whole)):
        return math.inf
    return change / whole if whole else change
