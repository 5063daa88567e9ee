"""Measures the exponents of every layer's outputs and gradients in one batch.

The layers compute in float32, whatever they train in: a value that underflowed or overflowed in 16
bits would no longer tell which format it needs. One compiled function computes the losses, the
gradients and their histograms, so that no tensor leaves the device; nothing is changed.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf

from ampcore.data import Batch
from ampcore.diagnostics.layer_outputs import LayerOutput, LayerRef, layer_outputs
from ampcore.models.seeds import micro_batch_seed
from ampcore.models.task import Task, float32_view
from ampcore.precision import without_overwrites
from ampcore.precision.layers.layer_paths import walk_layers
from ampspec.precision.layer_dtypes import SHAPE_ONLY_LAYERS
from ampspec.telemetry.ranges.exponent_histogram import ExponentHistogram
from ampspec.telemetry.ranges.range_samples import LayerRange, RangeSample, TensorKind, TensorRange

Tensor = Any

MAX_VALUES: Final = 2**16
"""The maximum number of values counted in each tensor, evenly spaced."""
EXPONENT_BIAS: Final = 127
EXPONENTS: Final = 256
"""The codes of the exponent in a float32 number; the first is of 0, the last of infinity and NaN.

Subnormal float32 numbers have the code of 0, and count as 0.
"""
MANTISSA_BITS: Final = 23


class _Row(NamedTuple):
    """What one row of the function's result describes."""

    layer: LayerRef
    kind: TensorKind


class RangeProbe:
    """The ranges of a task's layers in one batch.

    One compiled function, traced when it is first called.

    Args:
        task: What is trained.
        accumulate: The micro-batches of a step; the first one is measured.
    """

    def __init__(self, task: Task, accumulate: int = 1) -> None:
        self.task, self._accumulate = float32_view(task), accumulate
        self._dtypes = layer_dtypes(task)
        self._owners = variable_owners(task)
        self._rows: list[_Row] = []
        self._strides: list[int] = []
        self.function = tf.function(self._function, autograph=False)

    @property
    def layer_count(self) -> int:
        """The number of layers, called or not."""
        return len(self._dtypes)

    def __call__(
        self, step: int, scales: Sequence[float], batch: Batch, seed: Tensor
    ) -> RangeSample:
        """The sample of a step.

        Args:
            step: Its number.
            scales: The loss scale of each network.
            batch: All examples of the step.
            seed: Its seed.
        """
        size = batch.parts[0].shape[0] // self._accumulate
        micro = batch.map(lambda rows: tf.convert_to_tensor(rows[:size]))
        counts, stats = self.function(micro, micro_batch_seed(seed, 0, self._accumulate))
        names = [network.name for network in self.task.networks]
        return RangeSample(
            step,
            dict(zip(names, map(float, scales), strict=True)),
            self._layers(counts.numpy(), stats.numpy()),
        )

    def _layers(self, counts: Any, stats: Any) -> list[LayerRange]:
        found: dict[LayerRef, dict[TensorKind, TensorRange]] = {}
        rows = zip(self._rows, self._strides, counts, stats, strict=True)
        for row, stride, own_counts, own_stats in rows:
            measured = _tensor_range(own_counts, own_stats, stride)
            if measured.histogram.size:
                of_layer = found.setdefault(row.layer, {})
                known = of_layer.get(row.kind)
                of_layer[row.kind] = measured if known is None else known + measured
        return [
            LayerRange(*ref, self._dtypes.get((ref.network, ref.path), "float32"), tensors)
            for ref, tensors in found.items()
        ]

    def _function(self, batch: Batch, seed: Tensor) -> tuple[Tensor, Tensor]:
        outputs, of_outputs, of_weights = self._gradients(batch, seed)
        rows: list[tuple[_Row, Any]] = []
        for number, output in enumerate(outputs):
            layer = output.layer_ref
            rows.append((_Row(layer, TensorKind.ACTIVATIONS), output.tensor))
            rows += [
                (_Row(layer, TensorKind.ACTIVATION_GRADIENTS), gradients[number])
                for gradients in of_outputs
            ]
        rows += [
            (_Row(layer, TensorKind.WEIGHT_GRADIENTS), gradient)
            for layer, gradient in of_weights
            if layer is not None
        ]
        present = [(row, _flat(value)) for row, value in rows if value is not None]
        self._rows = [row for row, _ in present]
        self._strides = [sample_stride(flat.shape[0]) for _, flat in present]
        pairs = zip(present, self._strides, strict=True)
        measured = [measure(flat, stride) for (_, flat), stride in pairs]
        if not measured:
            return tf.zeros((0, EXPONENTS), tf.int32), tf.zeros((0, 4), tf.float32)
        return tf.stack([row[0] for row in measured]), tf.stack([row[1] for row in measured])

    def _gradients(
        self, batch: Batch, seed: Tensor
    ) -> tuple[list[LayerOutput], list[list[Any]], list[tuple[LayerRef | None, Any]]]:
        """The layers' outputs; of each loss the gradients by them; those by each variable."""
        weights = [[tf.convert_to_tensor(value) for value in own] for own in self.task.weights()]
        with layer_outputs(self.task) as outputs:
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(weights)
                losses, _ = self.task.losses(weights, self.task.non_trainable(), batch, seed)
            kept = [each for each in outputs if each.layer_ref.kind not in SHAPE_ONLY_LAYERS]
            tensors = [output.tensor for output in kept]
            with self.task.applied_dtypes():
                found = [
                    tape.gradient(loss, (own, tensors))
                    for loss, own in zip(losses, weights, strict=True)
                ]
        of_weights = []
        for (own, _), network in zip(found, self.task.networks, strict=True):
            variables = network.model.trainable_variables
            gradients = without_overwrites(own, variables)
            of_weights += [
                (self._owners.get(id(variable)), gradient)
                for variable, gradient in zip(variables, gradients, strict=True)
            ]
        return kept, [by_outputs for _, by_outputs in found], of_weights


def variable_owners(task: Task) -> dict[int, LayerRef]:
    """By the id of each trainable variable, the innermost layer that it belongs to."""
    # A layer comes before its parts, so that the innermost one stays.
    return {
        id(variable): LayerRef(network.name, found.info.path, found.info.kind)
        for network in task.networks
        for found in walk_layers(network.model)
        for variable in found.layer.trainable_variables
    }


def sample_stride(size: int | None) -> int:
    """The distance of the counted values of a tensor with so many, if that is known.

    It has no common factor with the size: otherwise it could pick the same channels everywhere.
    """
    stride = max(-(-(size or 0) // MAX_VALUES), 1)
    while stride > 1 and math.gcd(stride, size or 1) > 1:
        stride += 1
    return stride


def measure(flat: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """The counts of exponents (256,) of every `stride`-th value, and the statistics (4,).

    The statistics are: the values that are not finite and the largest finite magnitude, both over
    all values; the mean and the mean square of the counted finite values.
    """
    finite = tf.math.is_finite(flat)
    not_finite = tf.reduce_sum(tf.cast(tf.logical_not(finite), tf.float32))
    # The 0 is for tensors without elements.
    magnitudes = tf.where(finite, tf.abs(flat), 0.0)
    largest = tf.reduce_max(tf.concat([magnitudes, [0.0]], axis=0))
    picked = flat[::stride] if stride > 1 else flat
    counts = tf.raw_ops.DenseBincount(
        input=exponent_codes(picked),
        size=EXPONENTS,
        weights=tf.constant([], tf.int32),
        binary_output=False,
    )
    values = tf.where(tf.math.is_finite(picked), picked, 0.0)
    count = tf.maximum(tf.cast(tf.size(values), tf.float32), 1.0)
    mean = tf.reduce_sum(values) / count
    # Divided by the largest: a square may be too large or too small for float32.
    relative = tf.math.divide_no_nan(values, largest)
    mean_square = tf.reduce_sum(tf.square(relative)) / count
    return counts, tf.stack([not_finite, largest, mean, mean_square])


def exponent_codes(values: Tensor) -> Tensor:
    """The exponents of float32 numbers plus `EXPONENT_BIAS`, int32."""
    bits = tf.bitcast(values, tf.int32)
    return tf.bitwise.bitwise_and(tf.bitwise.right_shift(bits, MANTISSA_BITS), EXPONENTS - 1)


def _tensor_range(counts: Any, stats: Any, stride: int) -> TensorRange:
    not_finite, largest, mean, relative_square = map(float, stats)
    histogram = ExponentHistogram(
        {
            code - EXPONENT_BIAS: stride * int(counts[code])
            for code in range(1, EXPONENTS - 1)
            if counts[code]
        },
        stride * int(counts[0]),
        int(not_finite),
        largest,
    )
    return TensorRange(histogram, mean, relative_square * largest**2)


def _flat(value: Any) -> Tensor:
    values = value.values if isinstance(value, tf.IndexedSlices) else value
    return tf.reshape(tf.cast(values, tf.float32), [-1])


def layer_dtypes(task: Task) -> dict[tuple[str, str], str]:
    """By network and path, what each layer computes in during the training."""
    found = {}
    for network in task.networks:
        with network.dtypes.applied():
            found.update(
                {
                    (network.name, entry.info.path): str(entry.layer.compute_dtype)
                    for entry in walk_layers(network.model)
                }
            )
    return found
