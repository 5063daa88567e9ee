"""Range samples: the exponents of every layer's values and gradients at one step of a run.

Values are computed in float32, regardless of the dtypes of the run, and gradients are those of the
unscaled loss, so that a sample tells the effect of any number format at any loss scale.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from ampspec.telemetry.ranges.exponent_histogram import ExponentHistogram

MAX_NAME: Final = 1000
"""The maximum length of a layer's path in an untrusted sample."""
EXPONENTS: Final = range(-149, 128)
"""The exponents of float32 numbers."""


class TensorKind(StrEnum):
    """The tensors of a layer that are sampled."""

    ACTIVATIONS = "activations"  # its outputs
    ACTIVATION_GRADIENTS = "activation_gradients"  # the gradients of the loss by its outputs
    WEIGHT_GRADIENTS = "weight_gradients"  # the gradients of the loss by its weights

    @property
    def is_scaled(self) -> bool:
        """Whether the loss scale multiplies these values during the training."""
        return self is not TensorKind.ACTIVATIONS


@dataclass(frozen=True)
class TensorRange:
    """The exponents of the values of one kind, and their moments over the finite values."""

    histogram: ExponentHistogram
    mean: float = 0.0
    mean_square: float = 0.0

    @property
    def variance(self) -> float:
        """The mean squared distance from the mean."""
        return max(self.mean_square - self.mean**2, 0.0)

    def __add__(self, tensor_range: Self) -> Self:
        """The range of the values of both."""
        sizes = self.histogram.size, tensor_range.histogram.size
        total = max(sum(sizes), 1)
        mean = (self.mean * sizes[0] + tensor_range.mean * sizes[1]) / total
        square = (self.mean_square * sizes[0] + tensor_range.mean_square * sizes[1]) / total
        return type(self)(self.histogram + tensor_range.histogram, mean, square)

    def to_json(self) -> dict[str, Any]:
        """The fields of the histogram, and the moments."""
        return {
            **self.histogram.to_json(),
            "mean": self.mean,
            "mean_square": self.mean_square,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The range that `to_json` wrote."""
        histogram = ExponentHistogram.from_json(document)
        return cls(histogram, document["mean"], document["mean_square"])


@dataclass(frozen=True)
class LayerRange:
    """The ranges of one layer; a kind is missing where the layer has no such tensor."""

    network: str
    layer: str
    """Its path, as `precision.overrides` matches it."""
    kind: str
    """The name of its Keras class."""
    dtype: str
    """Its compute dtype during the run."""
    tensors: Mapping[TensorKind, TensorRange]

    def to_json(self) -> dict[str, Any]:
        """The names, then an object for each kind of tensor."""
        names = {
            "network": self.network,
            "layer": self.layer,
            "kind": self.kind,
            "dtype": self.dtype,
        }
        return names | {kind.value: tensor.to_json() for kind, tensor in self.tensors.items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The layer that `to_json` wrote."""
        tensors = {
            kind: TensorRange.from_json(document[kind])
            for kind in TensorKind
            if document.get(kind) is not None
        }
        network, layer, kind, dtype = (
            str(document[name]) for name in ("network", "layer", "kind", "dtype")
        )
        return cls(network, layer, kind, dtype, tensors)


@dataclass(frozen=True)
class RangeSample:
    """The ranges of all layers before one step, with the loss scale of each network."""

    step: int
    scales: Mapping[str, float]
    layers: Sequence[LayerRange]

    def tensors(self) -> Iterator[tuple[LayerRange, TensorKind, TensorRange]]:
        """Every tensor of every layer, in the order of the forward pass."""
        for layer in self.layers:
            for kind, tensor in layer.tensors.items():
                yield layer, kind, tensor

    def to_json(self) -> dict[str, Any]:
        """JSON values; the step is left to the event."""
        return {
            "scales": dict(self.scales),
            "layers": [layer.to_json() for layer in self.layers],
        }

    @classmethod
    def from_untrusted(cls, step: int, document: object) -> Self:
        """The sample in an untrusted document.

        Raises:
            ValueError: It is not of the form that `to_json` writes, or its numbers are not those
                of a histogram.
        """
        try:
            sample = cls.from_json(step, document)  # type: ignore[arg-type]
            for name, scale in sample.scales.items():
                _require(isinstance(name, str) and 0 < float(scale) < math.inf, "scales")
            for layer, _, measured in sample.tensors():
                _check_range(layer, measured)
        except (AttributeError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"expected a range sample, received {error!r}"[:200]) from None
        return sample

    @classmethod
    def from_json(cls, step: int, document: Mapping[str, Any]) -> Self:
        """The sample that `to_json` wrote."""
        layers = [LayerRange.from_json(layer) for layer in document["layers"]]
        return cls(step, dict(document["scales"]), layers)


def _check_range(layer: LayerRange, measured: TensorRange) -> None:
    """Raise ValueError unless the values are those of a histogram of float32 numbers."""
    names = layer.network, layer.layer, layer.kind, layer.dtype
    _require(all(len(name) <= MAX_NAME for name in names), "names")
    histogram = measured.histogram
    counts = [*histogram.counts.values(), histogram.zeros, histogram.not_finite]
    _require(all(type(count) is int and 0 <= count < 2**63 for count in counts), "counts")
    _require(all(e in EXPONENTS for e in histogram.counts), "exponents")
    numbers = histogram.largest, measured.mean, measured.mean_square
    _require(all(math.isfinite(number) for number in numbers), "numbers")


def _require(condition: bool, name: str) -> None:
    if not condition:
        raise ValueError(f"expected a range sample, received other {name}")
