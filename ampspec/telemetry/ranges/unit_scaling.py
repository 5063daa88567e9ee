"""Multipliers that give a layer's outputs and gradients unit variance.

Source: Blake, Orr and Luschi 2023, Unit Scaling, arXiv:2303.11257: values with a variance of 1 are
in the middle of every number format's range, so that no loss scale is needed.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from ampspec.telemetry.ranges.range_samples import RangeSample, TensorKind, TensorRange


@dataclass(frozen=True)
class UnitScale:
    """The standard deviations of one layer, and the powers of two that bring them near 1.

    A multiplier is None where all values are 0 or the layer has no such tensor.
    """

    network: str
    layer: str
    kind: str
    output_deviation: float | None
    output_multiplier: float | None
    gradient_deviation: float | None
    """The standard deviation of the gradient of the unscaled loss by the outputs."""
    gradient_multiplier: float | None

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)


def unit_scales(sample: RangeSample) -> list[UnitScale]:
    """The multipliers of every layer, in the order of the forward pass."""
    multipliers = []
    for layer in sample.layers:
        output = _deviation(layer.tensors.get(TensorKind.ACTIVATIONS))
        gradient = _deviation(layer.tensors.get(TensorKind.ACTIVATION_GRADIENTS))
        multipliers.append(
            UnitScale(
                layer.network,
                layer.layer,
                layer.kind,
                output,
                _multiplier(output),
                gradient,
                _multiplier(gradient),
            )
        )
    return multipliers


def _deviation(tensor: TensorRange | None) -> float | None:
    return None if tensor is None else math.sqrt(tensor.variance)


def _multiplier(deviation: float | None) -> float | None:
    return 2.0 ** -round(math.log2(deviation)) if deviation else None
