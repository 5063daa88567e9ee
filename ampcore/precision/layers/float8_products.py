"""Products of 8-bit numbers: e4m3 inputs and weights, e5m2 gradients, one scale for each tensor.

Products of two 8-bit numbers are exact in float32, and their sums are float32, as in Tensor Cores.

Source: Micikevicius et al. 2022, arXiv:2209.05433; scaling as in NVIDIA's Transformer Engine,
recipes `DelayedScaling` (format HYBRID) and `Float8CurrentScaling`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import keras
import tensorflow as tf

from ampcore.precision.layers.float8_format import (
    E4M3,
    E5M2,
    Float8Format,
    largest_magnitude,
    quantize,
    scale_for,
)
from ampcore.precision.layers.products import Operand, Products, cast_operand
from ampspec.precision.precision import Float8

Tensor = Any

FORMATS: Final[dict[Operand, Float8Format]] = {
    "inputs": E4M3,
    "kernel": E4M3,
    "output_gradient": E5M2,
}
"""The format of each operand, in the order of the rows of an amax history."""


class Float8Scaling:
    """The scales of one layer's operands.

    With delayed scaling they follow from the largest magnitudes (amax) of the steps before, which a
    training step records; without any record, and with current scaling, from the tensor itself.

    Args:
        name: The path of the layer.
        spec: The settings.
        native: Whether the device multiplies 8-bit numbers.

    Attributes:
        history: With delayed scaling, the amaxes of the last applied steps, the newest first:
            float32, (3, steps), a row for each operand. It is no variable of the model, so
            that a model has the same variables under every policy.
    """

    def __init__(self, name: str, spec: Float8, *, native: bool) -> None:
        self.name, self.native = name, native
        self._margin = spec.margin
        self._probe: Tensor | None = None
        self.history: keras.Variable | None = None
        if spec.scaling == "delayed":
            self.history = keras.Variable(
                tf.zeros((len(FORMATS), spec.amax_history)),
                trainable=False,
                autocast=False,
                dtype="float32",
                name="amax_history",
            )

    def quantized(self, values: Tensor, operand: Operand) -> Tensor:
        """The operand, rounded to its format: float32."""
        float8 = FORMATS[operand]
        amax = largest_magnitude(values)
        if self.history is not None:
            row = list(FORMATS).index(operand)
            recorded = tf.reduce_max(tf.convert_to_tensor(self.history.value)[row])
            amax = tf.where(recorded > 0.0, recorded, amax)
        return quantize(float8, values, scale_for(float8, amax, self._margin), native=self.native)

    def next_history(self, amaxes: Tensor) -> Tensor:
        """The history after an applied step with these amaxes, float32 (3,).

        An amax that is not finite says nothing about a scale: its row does not change.
        """
        history = tf.convert_to_tensor(self.history.value)  # type: ignore[union-attr]
        shifted_history = tf.concat([amaxes[:, tf.newaxis], history[:, :-1]], axis=1)
        return tf.where(tf.math.is_finite(amaxes)[:, tf.newaxis], shifted_history, history)

    @contextmanager
    def recording(self) -> Iterator[Tensor]:
        """A context whose calls are recorded: the gradient by the tensor it returns has the amaxes.

        A gradient is the only way in which a backward pass can return a value. Calls of one layer
        pass the tensor on from one to the next, so that the maximum counts and not the sum.
        """
        self._probe = first = tf.zeros(len(FORMATS))
        try:
            yield first
        finally:
            self._probe = None

    @property
    def probe(self) -> Tensor | None:
        """The tensor of the next call; None where calls are not recorded.

        A loop inside a model has a graph of its own, from which a tensor cannot be returned.
        """
        if self._probe is None or tf.executing_eagerly():
            return self._probe
        return self._probe if self._probe.graph is tf.compat.v1.get_default_graph() else None

    @probe.setter
    def probe(self, probe: Tensor) -> None:
        self._probe = probe


@contextmanager
def recorded_amaxes(scalings: Sequence[Float8Scaling], tape: Any) -> Iterator[list[Tensor]]:
    """A context in which the forward passes of layers are recorded on a gradient tape.

    Yields:
        For each scaling, the tensor of `Float8Scaling.recording`.
    """
    if not scalings:
        yield []
        return
    first, *later_scalings = scalings
    with first.recording() as probe, recorded_amaxes(later_scalings, tape) as later_probes:
        tape.watch(probe)
        yield [probe, *later_probes]


@dataclass(frozen=True)
class Float8Products:
    """The products of a layer of which some are computed in float8.

    Args:
        products: The products by role.
        scaling: The scales of the layer.
    """

    products: Products
    scaling: Float8Scaling

    def __call__(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """The output; as `Products`."""
        if self.scaling.history is None or (probe := self.scaling.probe) is None:
            return self._outputs(inputs, kernel)
        outputs, self.scaling.probe = self._recorded_outputs(inputs, kernel, probe)
        return outputs

    def _outputs(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def by_role(inputs: Tensor, kernel: Tensor) -> Any:
            def gradients(upstream: Tensor) -> tuple[Tensor, Tensor]:
                return self.products.gradients(inputs, kernel, upstream, self._in_dtype)

            return self.products.forward(inputs, kernel, self._in_dtype), gradients

        return by_role(inputs, kernel)

    def _recorded_outputs(self, inputs: Tensor, kernel: Tensor, probe: Tensor) -> Any:
        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def by_role(inputs: Tensor, kernel: Tensor, probe: Tensor) -> Any:
            def gradients(upstream: Tensor, later: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                amaxes = tf.stack(
                    [largest_magnitude(operand) for operand in (inputs, kernel, upstream)]
                )
                grads = self.products.gradients(inputs, kernel, upstream, self._in_dtype)
                return (*grads, tf.maximum(amaxes, later))

            outputs = self.products.forward(inputs, kernel, self._in_dtype)
            return (outputs, tf.identity(probe)), gradients

        return by_role(inputs, kernel, probe)

    def _in_dtype(self, tensor: Tensor, operand: Operand, dtype: str) -> Tensor:
        if dtype == "float8":
            return self.scaling.quantized(tensor, operand)
        return cast_operand(tensor, operand, dtype)
