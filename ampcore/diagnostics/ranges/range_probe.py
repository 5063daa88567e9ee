"""Measures the exponents of every layer's outputs and gradients in one batch.

The layers compute in float32, whatever they train in: a value that underflowed or overflowed in 16
bits would no longer tell which format it needs. One compiled function computes the losses, the
gradients and their histograms, so that no tensor leaves the device; nothing is changed.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf

from ampcore.data import Batch
from ampcore.diagnostics.layer_outputs import (
    LayerOutput,
    LayerRef,
    layer_outputs,
    variable_owners,
)
from ampcore.diagnostics.loss_gradients import LossGradients, first_micro_batch, loss_gradients
from ampcore.models.task import Task, float32_view
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
        counts, stats = self.function(*first_micro_batch(batch, seed, self._accumulate))
        names = [network.name for network in self.task.networks]
        return RangeSample(
            step,
            dict(zip(names, map(float, scales), strict=True)),
            self._layers(counts.numpy(), stats.numpy()),
        )

    def _layers(self, counts: Any, stats: Any) -> list[LayerRange]:
        ranges: dict[LayerRef, dict[TensorKind, TensorRange]] = {}
        rows = zip(self._rows, self._strides, counts, stats, strict=True)
        for row, stride, own_counts, own_stats in rows:
            measured = _tensor_range(own_counts, own_stats, stride)
            if measured.histogram.size:
                of_layer = ranges.setdefault(row.layer, {})
                earlier_range = of_layer.get(row.kind)
                of_layer[row.kind] = measured if earlier_range is None else earlier_range + measured
        return [
            LayerRange(*ref, self._dtypes.get((ref.network, ref.path), "float32"), tensors)
            for ref, tensors in ranges.items()
        ]

    def _function(self, batch: Batch, seed: Tensor) -> tuple[Tensor, Tensor]:
        outputs, gradients = self._gradients(batch, seed)
        rows: list[tuple[_Row, Any]] = []
        for output, *by_output in zip(outputs, *gradients.outputs, strict=True):
            layer = output.layer_ref
            rows.append((_Row(layer, TensorKind.ACTIVATIONS), output.tensor))
            rows += [(_Row(layer, TensorKind.ACTIVATION_GRADIENTS), grad) for grad in by_output]
        rows += [
            (_Row(self._owners[id(variable)], TensorKind.WEIGHT_GRADIENTS), gradient)
            for network, by_variables in zip(self.task.networks, gradients.variables, strict=True)
            for variable, gradient in zip(
                network.model.trainable_variables, by_variables, strict=True
            )
            if id(variable) in self._owners
        ]
        present = [(row, _flat(value)) for row, value in rows if value is not None]
        self._rows = [row for row, _ in present]
        self._strides = [sample_stride(flat.shape[0]) for _, flat in present]
        pairs = zip(present, self._strides, strict=True)
        measured = [measure(flat, stride) for (_, flat), stride in pairs]
        if not measured:
            return tf.zeros((0, EXPONENTS), tf.int32), tf.zeros((0, 4), tf.float32)
        return tf.stack([row[0] for row in measured]), tf.stack([row[1] for row in measured])

    def _gradients(self, batch: Batch, seed: Tensor) -> tuple[list[LayerOutput], LossGradients]:
        """The outputs of the layers that compute, and the gradients by them and by variables."""

        def computed(outputs: Iterable[LayerOutput]) -> list[LayerOutput]:
            return [out for out in outputs if out.layer_ref.kind not in SHAPE_ONLY_LAYERS]

        with layer_outputs(self.task) as outputs:
            gradients = loss_gradients(
                *(self.task, self.task.non_trainable(), batch, seed),
                outputs=lambda: [output.tensor for output in computed(outputs)],
            )
        return computed(outputs), gradients


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
    dtypes = {}
    for network in task.networks:
        with network.dtypes.applied():
            dtypes.update(
                {
                    (network.name, entry.info.path): str(entry.layer.compute_dtype)
                    for entry in walk_layers(network.model)
                }
            )
    return dtypes
