"""The effect of a number format on every layer of a run: a table and advice, from range samples.

A tensor suffers if values of it overflow, or if rounding changes it by more than MAX_ERROR. The
loss scale moves all gradients of a network together, so a scale suits a network if none of its
gradients suffers; if no scale does, the report names the offending layers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from ampspec.telemetry.ranges.exponent_histogram import (
    SCALE_EXPONENTS,
    ExponentHistogram,
    FormatShares,
)
from ampspec.telemetry.ranges.number_formats import NumberFormat
from ampspec.telemetry.ranges.range_samples import LayerRange, RangeSample, TensorKind, TensorRange

MAX_ERROR: Final = 0.01
"""The largest mean squared error, relative to the mean square, that does no harm: a tenth of the
typical value. Rounding to the normal numbers of any of the formats stays below a quarter of it."""
MAX_NAMED: Final = 8
"""The maximum number of layers in a sentence."""


class RangeProblem(StrEnum):
    """Why a format does not suit a tensor."""

    OVERFLOW = "overflow"  # values are beyond its largest number
    UNDERFLOW = "underflow"  # too many values are below its smallest numbers


@dataclass(frozen=True)
class TensorReport:
    """One kind of tensors of one layer in the format."""

    network: str
    layer: str
    kind: str
    """The name of the layer's Keras class."""
    dtype: str
    """The compute dtype of the layer during the run."""
    tensor: TensorKind
    scale_exponent: int
    """The exponent of the loss scale that multiplies the values; 0 for activations."""
    underflow: float
    subnormal: float
    overflow: float
    error: float
    """The mean squared error over the mean square."""
    not_finite: int
    largest: float
    lowest: int | None
    """The exponent of the lowest loss scale that suits these gradients; None: none does."""
    highest: int | None
    problem: RangeProblem | None

    @property
    def unrepresented(self) -> float:
        """The share of the values that become 0 or infinite."""
        return self.underflow + self.overflow

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)


@dataclass(frozen=True)
class ScaleReport:
    """The gradients of one network at every loss scale."""

    network: str
    used_exponent: int
    """The exponent of the loss scale in the last sample, rounded to a power of two."""
    first_exponent: int
    """The exponent of the first entry in each list below; the scale doubles with each entry."""
    underflow: list[float]
    overflow: list[float]
    error: list[float]
    suffering_layers: list[int]
    """The number of layers that a scale does not suit."""
    lowest: int | None
    """The exponent of the lowest scale that suits all layers; None: no scale does."""
    highest: int | None
    best_exponent: int
    """The exponent of the scale that suits the most layers; ties prefer the scale in use."""
    finite_exponent: int | None = None
    """The exponent of the largest scale at which the gradients of every skipped step are finite;
    None: no step was skipped because of its scale."""


@dataclass(frozen=True)
class RangeReport:
    """The effect of a format on the sampled steps of a run."""

    number_format: str
    samples: int
    first_step: int
    last_step: int
    tensors: list[TensorReport]
    """The worst first."""
    scales: list[ScaleReport]
    layers: list[str]
    """The layers that the format does not suit at any one scale, in the order of their calls."""
    float32_layers: list[str]
    """The layers to keep in float32: `layers`, and the layers that take their outputs."""
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)


def range_report(
    samples: Sequence[RangeSample],
    number_format: NumberFormat,
    finite_below: Mapping[str, float] | None = None,
) -> RangeReport | None:
    """The effect of the format on all sampled steps together; None without samples.

    Layers that the run keeps in float32 while others compute in 16 bits stay in float32 here too,
    and do not suffer.

    Args:
        samples: Of the run.
        number_format: The format.
        finite_below: By network, the largest loss scale at which the gradients of every skipped
            step are finite. It counts if the run computed in this format: between the samples
            gradients may be larger.
    """
    if not samples:
        return None
    layers = _combined(samples)
    exponents = {name: _exponent(scale) for name, scale in samples[-1].scales.items()}
    computed = any(layer.dtype == number_format.name for layer in layers)
    finite = {
        name: math.floor(math.log2(scale))
        for name, scale in (finite_below or {}).items()
        if computed
    }
    scales = [
        _scale_report(name, used, layers, number_format, finite.get(name))
        for name, used in exponents.items()
    ]
    best = {scale.network: scale.best_exponent for scale in scales}
    tensors = [
        _tensor_report(layer, kind, exponents, best, number_format, is_kept=_is_kept(layer, layers))
        for layer in layers
        for kind in layer.tensors
    ]
    suffering = {(tensor.network, tensor.layer) for tensor in tensors if tensor.problem is not None}
    layer_names = [layer.layer for layer in layers if (layer.network, layer.layer) in suffering]
    return RangeReport(
        number_format.name,
        len(samples),
        samples[0].step,
        samples[-1].step,
        sorted(tensors, key=_severity, reverse=True),
        scales,
        layer_names,
        _with_successors(layers, tensors),
        _sentence(number_format, layer_names, tensors, scales, len(samples)),
    )


def _severity(tensor: TensorReport) -> tuple[bool, float, float]:
    return tensor.problem is not None, tensor.unrepresented, tensor.error


def _exponent(scale: float) -> int:
    return round(math.log2(scale))


def _combined(samples: Sequence[RangeSample]) -> list[LayerRange]:
    """The layers of all samples, each with the values of all of them."""
    layers: dict[tuple[str, str], LayerRange] = {}
    tensors: dict[tuple[str, str], dict[TensorKind, TensorRange]] = {}
    for sample in samples:
        for layer, kind, measured in sample.tensors():
            key = layer.network, layer.layer
            layers[key] = layer
            layer_tensors = tensors.setdefault(key, {})
            layer_tensors[kind] = (
                layer_tensors[kind] + measured if kind in layer_tensors else measured
            )
    return [
        LayerRange(layer.network, layer.layer, layer.kind, layer.dtype, tensors[key])
        for key, layer in layers.items()
    ]


def _is_kept(layer: LayerRange, layers: Iterable[LayerRange]) -> bool:
    """Whether the policy of the run keeps this layer in float32."""
    return layer.dtype == "float32" and any(
        other_layer.dtype in ("float16", "bfloat16") for other_layer in layers
    )


def _problem(
    histogram: ExponentHistogram, exponent: int, number_format: NumberFormat
) -> RangeProblem | None:
    largest = histogram.largest * 2.0**exponent
    if histogram.not_finite or largest >= number_format.overflow_threshold:
        return RangeProblem.OVERFLOW
    if histogram.mean_squared_error(exponent, number_format) > MAX_ERROR:
        return RangeProblem.UNDERFLOW
    return None


def _suitable(histogram: ExponentHistogram, number_format: NumberFormat) -> list[int]:
    """The exponents of the loss scales that suit these gradients."""
    return [e for e in SCALE_EXPONENTS if _problem(histogram, e, number_format) is None]


def _scale_report(
    network: str,
    used: int,
    layers: Sequence[LayerRange],
    number_format: NumberFormat,
    finite_exponent: int | None,
) -> ScaleReport:
    network_layers = [layer for layer in layers if layer.network == network]
    gradients = {
        (layer.layer, kind): measured.histogram
        for layer in network_layers
        if not _is_kept(layer, layers)
        for kind, measured in layer.tensors.items()
        if kind.is_scaled
    }
    together = sum(gradients.values(), start=ExponentHistogram())
    shares = [together.shares(e, number_format) for e in SCALE_EXPONENTS]
    suits = {key: _suitable(histogram, number_format) for key, histogram in gradients.items()}
    suffering = [
        len({layer for (layer, _), exponents in suits.items() if e not in exponents})
        for e in SCALE_EXPONENTS
    ]
    counts = {
        e: count
        for e, count in zip(SCALE_EXPONENTS, suffering, strict=True)
        if finite_exponent is None or e <= max(finite_exponent, SCALE_EXPONENTS[0])
    }
    suitable = [e for e, count in counts.items() if not count]
    best = min(counts, key=lambda e: (counts[e], abs(e - used)))
    if suitable and best == max(suitable) != used:
        best = max(best - 1, min(suitable))  # room for larger gradients
    return ScaleReport(
        network,
        used,
        SCALE_EXPONENTS[0],
        [share.underflow for share in shares],
        [share.overflow for share in shares],
        [together.mean_squared_error(e, number_format) for e in SCALE_EXPONENTS],
        suffering,
        min(suitable, default=None),
        max(suitable, default=None),
        best,
        finite_exponent,
    )


def _tensor_report(
    layer: LayerRange,
    tensor: TensorKind,
    used: Mapping[str, int],
    best: Mapping[str, int],
    number_format: NumberFormat,
    *,
    is_kept: bool,
) -> TensorReport:
    histogram = layer.tensors[tensor].histogram
    exponent = used[layer.network] if tensor.is_scaled else 0
    judged = best[layer.network] if tensor.is_scaled else 0
    suitable = _suitable(histogram, number_format) if tensor.is_scaled else []
    shares: FormatShares = histogram.shares(exponent, number_format)
    return TensorReport(
        layer.network,
        layer.layer,
        layer.kind,
        layer.dtype,
        tensor,
        exponent,
        *shares,
        histogram.mean_squared_error(exponent, number_format),
        histogram.not_finite,
        histogram.largest,
        min(suitable, default=None),
        max(suitable, default=None),
        None if is_kept else _problem(histogram, judged, number_format),
    )


def _with_successors(layers: Sequence[LayerRange], tensors: Sequence[TensorReport]) -> list[str]:
    """The layers to keep in float32: those that suffer, and those that take their outputs.

    A layer casts its inputs, and computes the gradients by them in its own dtype.
    """
    by_outputs = {
        (tensor.network, tensor.layer)
        for tensor in tensors
        if tensor.problem is not None and tensor.tensor is not TensorKind.WEIGHT_GRADIENTS
    }
    every = {(tensor.network, tensor.layer) for tensor in tensors if tensor.problem is not None}
    keys = [(layer.network, layer.layer) for layer in layers]
    following = {
        next_key for key, next_key in pairwise(keys) if key in by_outputs and key[0] == next_key[0]
    }
    return [layer for network, layer in keys if (network, layer) in every | following]


def _sentence(
    number_format: NumberFormat,
    layers: Sequence[str],
    tensors: Sequence[TensorReport],
    scales: Sequence[ScaleReport],
    samples: int,
) -> str:
    parts = []
    for problem, verb in (
        (RangeProblem.OVERFLOW, "overflow"),
        (RangeProblem.UNDERFLOW, "underflow"),
    ):
        for kinds, what in (
            ((TensorKind.ACTIVATIONS,), "the outputs"),
            ((TensorKind.ACTIVATION_GRADIENTS, TensorKind.WEIGHT_GRADIENTS), "the gradients"),
        ):
            affected = {
                tensor.layer
                for tensor in tensors
                if tensor.problem is problem and tensor.tensor in kinds
            }
            if names := [layer for layer in layers if layer in affected]:
                parts.append(f"{what} of {_joined(names)} {verb}")
    if parts:
        clash = any(scale.lowest is None for scale in scales)
        why = " No loss scale suits all layers:" if clash else ""
        text = ", ".join(parts)
        return f"{number_format.name}:{why} {text}; keep these layers in float32."
    wrong = [scale for scale in scales if scale.best_exponent != scale.used_exponent]
    if wrong:
        texts = [f"2^{scale.lowest} to 2^{scale.highest}" for scale in wrong]
        skipped = any(scale.highest == scale.finite_exponent for scale in wrong)
        return (
            f"{number_format.name}: the loss scale 2^{wrong[0].used_exponent} of the last sample "
            f"does not suit the gradients; scales from {' and '.join(texts)} do."
            + (" At larger ones steps were skipped." if skipped else "")
        )
    return f"{number_format.name} suits all layers at the loss scale used in {_steps(samples)}."


def _steps(samples: int) -> str:
    return "the sampled step" if samples == 1 else f"the {samples} sampled steps"


def _joined(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
