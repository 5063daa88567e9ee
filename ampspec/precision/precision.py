"""The precision policy and the loss scale of a job.

Source: Micikevicius et al. 2018, arXiv:1710.03740; the defaults are Keras's, with the minimum of
jmp and DeepSpeed and a maximum at which float32 arithmetic stays finite.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, Field

from ampspec.documents.base import SpecModel
from ampspec.documents.regex_cost import matching_is_slow

Policy = Literal[
    "float32",
    "mixed_float16",
    "mixed_bfloat16",
    "mixed_float8",
    "float16",
    "bfloat16",
    "O0",
    "O1",
    "O2",
    "O3",
    "auto",
]
Dtype = Literal["float32", "float16", "bfloat16"]
DTYPES_OF_16_BITS: Final = frozenset({"float16", "bfloat16"})
ProductDtype = Dtype | Literal["float8"]
"""In float8, inputs and weights of a product are e4m3 numbers, gradients are e5m2 numbers."""
Role = Literal["forward", "input_gradient", "weight_gradient"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""The matrix products of a layer with a kernel in a training step; two are in the backward pass."""

FLOAT16_MAX: Final = 65504.0
"""The largest finite float16 number."""

COMPUTE_DTYPE: dict[str, Dtype] = {
    "float32": "float32",
    "mixed_float16": "float16",
    "mixed_bfloat16": "bfloat16",
    # bfloat16 has float32's range; only the float8 products, which are scaled, have less.
    "mixed_float8": "bfloat16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "O0": "float32",
    "O1": "float16",
    "O2": "float16",
    "O3": "float16",
}
"""The compute dtype of each policy; `auto` is resolved on the worker's device."""

SMALLEST_SCALE = 2.0**-96
LARGEST_SCALE = 2.0**96
"""Within these bounds a scale, its inverse and products of two are normal float32 numbers."""

Scale = Annotated[float, Field(ge=SMALLEST_SCALE, le=LARGEST_SCALE)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Steps = Annotated[int, Field(ge=1, le=2**30 - 1)]
"""The bound allows adding two of them in int32."""


def _check_regex(pattern: str) -> str:
    # Ignoring case, `re` goes through a range letter by letter; paths of layers are ASCII.
    if not pattern.isascii() or re.search(r"\\[uUN]", pattern):
        raise ValueError("a regular expression of ASCII characters")
    try:
        re.compile(pattern)
    # OverflowError: a repeat count is too large; RecursionError: too many nested parentheses.
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"a valid regular expression of Python's re ({error})") from None
    if matching_is_slow([pattern]):
        raise ValueError("a regular expression that can be matched within a second")
    return pattern


MAX_PATTERN: Final = 256
"""The maximum length of a regular expression in an override."""

LayerPattern = Annotated[
    str, Field(min_length=1, max_length=MAX_PATTERN), AfterValidator(_check_regex)
]
"""A regular expression that is searched in the path of a layer."""


def _check_roles(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    if len(set(roles)) != len(roles):
        raise ValueError("each role once")
    return roles


class Override(SpecModel):
    """A dtype for the layers whose path matches a regular expression; the last match wins."""

    layers: LayerPattern
    dtype: Dtype
    roles: Annotated[
        tuple[Role, ...],
        Field(strict=False, min_length=1, max_length=len(ROLES)),
        AfterValidator(_check_roles),
    ] = ROLES
    """All three: the whole layer computes in this dtype. Fewer: only these matrix products of dense
    layers and convolutions do; the rest of the layer keeps its dtype."""

    @property
    def is_of_whole_layer(self) -> bool:
        """Whether it sets the dtype of the whole layer, not only of some products."""
        return len(self.roles) == len(ROLES)


def float32_overrides(layers: Iterable[str]) -> list[dict[str, str]]:
    """Entries of `precision.overrides` that keep exactly the layers with these paths in float32."""
    groups: list[list[str]] = []
    for path in dict.fromkeys(map(re.escape, layers)):
        if groups and len("|".join([*groups[-1], path])) + len("^()$") <= MAX_PATTERN:
            groups[-1].append(path)
        else:
            groups.append([path])
    patterns = [f"^({'|'.join(paths)})$" if len(paths) > 1 else f"^{paths[0]}$" for paths in groups]
    return [{"layers": pattern, "dtype": "float32"} for pattern in patterns]


def check_matching_cost(patterns: Iterable[str]) -> None:
    """Raise ValueError if matching all the regular expressions could take over a second."""
    if matching_is_slow(patterns):
        raise ValueError("regular expressions that can all be matched within a second")


def _check_regexes_together(overrides: tuple[Override, ...]) -> tuple[Override, ...]:
    check_matching_cost(override.layers for override in overrides)
    return overrides


class Float8(SpecModel):
    """How tensors are scaled into the range of float8, under the policy `mixed_float8`."""

    scaling: Literal["delayed", "current"] = "delayed"
    """`delayed`: by the largest magnitude of the last steps. `current`: by that of the tensor
    itself, which needs another pass over it."""
    amax_history: Annotated[int, Field(ge=1, le=4096)] = 1024
    """With delayed scaling, the number of steps whose largest magnitudes are kept."""
    margin: Annotated[int, Field(ge=0, le=8)] = 0
    """Scales are smaller by 2^margin, to leave room for growing values."""


class Precision(SpecModel):
    """The policy of the whole model, and overrides for layers."""

    policy: Policy = "float32"
    overrides: Annotated[
        tuple[Override, ...],
        Field(strict=False, max_length=256),
        AfterValidator(_check_regexes_together),
    ] = ()
    float8: Float8 = Float8()
    tf32: bool = True
    """Whether float32 products on GPUs may round their operands to TF32 (10 bits of mantissa), as
    TensorFlow does by default. GPUs have it from compute capability 8.0 on; other devices ignore
    it."""


class NoScale(SpecModel):
    """No loss scaling; `guard.skip_nonfinite` decides about non-finite steps."""

    mode: Literal["none"] = "none"


class FixedScale(SpecModel):
    """A constant loss scale; a step with non-finite gradients is skipped."""

    mode: Literal["fixed"] = "fixed"
    scale: Scale = 1024.0


class AdaptiveScale(SpecModel):
    """The constants of a loss scale that adapts to the largest value without overflow."""

    mode: str
    initial: Scale = 2.0**15
    growth_interval: Count = 2000
    growth_factor: float = Field(default=2.0, gt=1, le=2.0**16)
    backoff_factor: float = Field(default=0.5, gt=0, lt=1)
    minimum: Scale = 1.0
    maximum: Scale = 2.0**24
    hysteresis: Count = 1


class DynamicScale(AdaptiveScale):
    """A loss scale that grows after finite steps and backs off after non-finite ones."""

    mode: Literal["dynamic"] = "dynamic"


class CalibratedScale(AdaptiveScale):
    """A loss scale that is dynamic at first, then frozen, and recalibrated at intervals.

    Each round is `calibration_steps` dynamic steps and `audit_interval` frozen ones. While the
    scale is frozen, a non-finite step is skipped; the `hysteresis`-th in a row begins a new round.
    """

    mode: Literal["calibrated"] = "calibrated"
    # Short enough to grow from the initial scale to the maximum in one calibration.
    growth_interval: Count = 100
    # A single bad batch says nothing about the scale.
    hysteresis: Count = 2
    calibration_steps: Steps = 1000
    audit_interval: Steps = 10_000


class AutoScale(SpecModel):
    """Dynamic if the resolved policy computes in float16, otherwise none."""

    mode: Literal["auto"] = "auto"


LossScaleSpec = Annotated[
    NoScale | FixedScale | DynamicScale | CalibratedScale | AutoScale, Field(discriminator="mode")
]


def compute_dtypes(precision: Precision, policy: str) -> set[Dtype]:
    """The dtypes that layers may compute in under `policy`; `auto` itself adds none."""
    policy_dtypes = {COMPUTE_DTYPE[policy]} if policy in COMPUTE_DTYPE else set()
    return policy_dtypes | {override.dtype for override in precision.overrides}


def default_loss_scale(precision: Precision) -> NoScale | DynamicScale | AutoScale:
    """Dynamic if any layer may compute in float16, by policy or override; else none.

    With the policy `auto` it is resolved on the worker's device.
    """
    if "float16" in compute_dtypes(precision, precision.policy):
        return DynamicScale()
    return AutoScale() if precision.policy == "auto" else NoScale()
