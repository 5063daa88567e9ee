"""The ranges of a job: the exponents of each layer's values, and the effect of number formats."""

from typing import Literal

from pydantic import Field

from ampspec.api.base import ApiModel, JsonObject

NumberFormatName = Literal["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


class TensorFormatReport(ApiModel):
    """One kind of tensors of one layer in the number format, over all samples."""

    network: str
    layer: str = Field(description="The path that `precision.overrides` matches.")
    kind: str = Field(description="The Keras class of the layer.")
    dtype: str = Field(description="The compute dtype of the layer during the job.")
    tensor: str = Field(description="`activations`, `activation_gradients` or `weight_gradients`.")
    scale_exponent: int = Field(
        description="The values are multiplied by 2 to this power, the loss scale used."
    )
    underflow: float = Field(description="The share of the values that become 0.")
    subnormal: float = Field(
        description="The share of the values that lose precision as subnormal numbers."
    )
    overflow: float = Field(description="The share of the values that become infinite.")
    error: float = Field(description="The mean squared error over the mean square.")
    not_finite: int = Field(description="The values that are not finite in float32 either.")
    largest: float = Field(description="The largest magnitude, unscaled.")
    lowest: int | None = Field(
        description="The exponent of the lowest loss scale that suits these gradients; null for "
        "activations, or if none does."
    )
    highest: int | None = Field(description="The exponent of the highest such scale.")
    problem: str | None = Field(
        description="`overflow` or `underflow` if the format does not suit this tensor."
    )


class ScaleFormatReport(ApiModel):
    """The gradients of one network in the number format at every loss scale."""

    network: str
    used_exponent: int = Field(description="The exponent of the loss scale in the last sample.")
    first_exponent: int = Field(
        description="The exponent of the loss scale of the first entry in each list."
    )
    underflow: list[float]
    overflow: list[float]
    error: list[float]
    suffering_layers: list[int] = Field(
        description="The number of layers that each scale does not suit."
    )
    lowest: int | None = Field(
        description="The exponent of the lowest scale that suits all layers; null: none does."
    )
    highest: int | None = Field(description="The exponent of the highest such scale.")
    best_exponent: int = Field(description="The exponent of the scale that suits the most layers.")
    finite_exponent: int | None = Field(
        None,
        description="The exponent of the largest scale at which every skipped step would have been "
        "finite; null: none was skipped because of its scale.",
    )


class LayerOverride(ApiModel):
    """An entry of `precision.overrides`."""

    layers: str
    dtype: str


class FormatWindow(ApiModel):
    """The exponents of the numbers of a format."""

    min_subnormal: int = Field(description="The exponent of the smallest number.")
    min_normal: int = Field(description="The exponent of the smallest number with full precision.")
    max: int = Field(description="The exponent of the largest number.")


class FormatReport(ApiModel):
    """The effect of a number format on the sampled steps."""

    number_format: str
    window: FormatWindow
    samples: int
    first_step: int
    last_step: int
    tensors: list[TensorFormatReport] = Field(description="The worst first.")
    scales: list[ScaleFormatReport]
    layers: list[str] = Field(description="The layers that the format does not suit.")
    overrides: list[LayerOverride] = Field(
        description="Keeps these layers, and those that take their outputs, in float32."
    )
    loss_scale: JsonObject | None = Field(
        None,
        description="The section `loss_scale` for a spec, if that of the job does not suit the "
        "gradients.",
    )
    sentence: str


class LayerSample(ApiModel):
    """The layers of one network before one step."""

    step: int = Field(description="The number of the step, from 0.")
    scales: dict[str, float] = Field(description="The loss scale of each network.")
    layers: list[JsonObject] = Field(
        description="Each with `network`, `layer`, `kind`, `dtype`, and for `activations`, "
        "`activation_gradients` and `weight_gradients` a histogram: `counts` of the values with "
        "the exponents from `first_exponent` on, `zeros`, `not_finite`, `largest`, `mean` and "
        "`mean_square`. Gradients are unscaled."
    )


class Ranges(ApiModel):
    """The range samples of a job."""

    steps: list[int] = Field(description="All sampled steps in the requested range.")
    samples: list[LayerSample] = Field(
        description="At most `max_samples` of these samples, evenly spaced, including the last."
    )
    report: FormatReport | None = Field(
        description="The report over all these samples; null if there are none."
    )
