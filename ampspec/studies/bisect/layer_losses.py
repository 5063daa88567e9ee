"""The effect of a job's number format on each layer, from its range samples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:  # it loads NumPy, which most requests of a server do not need
    from ampspec.telemetry.ranges.range_report import RangeReport, TensorReport

TENSOR_TEXTS: Final = {
    "activations": "outputs",
    "activation_gradients": "gradients of its outputs",
    "weight_gradients": "gradients of its weights",
}


@dataclass(frozen=True)
class LayerLoss:
    """The loss of a layer in the number format, for its most affected tensor."""

    layer: str
    """Its path, as `precision.overrides` matches it."""
    kind: str
    """The name of its Keras class."""
    dtype: str
    """Its compute dtype."""
    number_format: str
    tensor: str
    """A TensorKind."""
    problem: str | None
    """`overflow` or `underflow` at the loss scale that suits the most layers; None: no problem."""
    share: float
    """The share of values that become 0 or infinite at the loss scale in use, from 0 to 1."""
    float32: bool
    """Whether the report advises float32: the layer has a problem, or takes the outputs of a layer
    with one."""

    def sentence(self) -> str:
        """The loss as a sentence, for a layer with a problem."""
        what = f"of the {TENSOR_TEXTS.get(self.tensor, self.tensor)} {self.problem}"
        # The problem and the share may refer to different loss scales.
        share = f"{100 * self.share:.3g} % {what}" if self.share else f"some {what}"
        return f"In {self.number_format} {share}."

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The loss that `to_json` wrote."""
        return cls(**document)


def layer_losses(report: "RangeReport") -> list[LayerLoss]:
    """The layers of a report: those advised to compute in float32 first, then the worst."""
    worst: dict[str, TensorReport] = {}
    for tensor in report.tensors:  # the worst first
        worst.setdefault(tensor.layer, tensor)
    advised = frozenset(report.float32_layers)
    losses = [
        LayerLoss(
            layer=name,
            kind=tensor.kind,
            dtype=tensor.dtype,
            number_format=report.number_format,
            tensor=tensor.tensor.value,
            problem=None if tensor.problem is None else tensor.problem.value,
            share=tensor.unrepresented,
            float32=name in advised,
        )
        for name, tensor in worst.items()
    ]
    return sorted(losses, key=lambda loss: not loss.float32)
