"""Loss scaling: keep float16 gradients inside float16's range.

The kinds are values that share `init / scale / unscale / adjust`, so a training step needs no
branch for the kind:

    loss_scale = DynamicLossScale()
    state = loss_scale.init()
    for batch in batches:
        ...  # the gradients of loss_scale.scale(state, loss)
        grads = loss_scale.unscale(state, grads)
        state, applied = apply_if_finite(loss_scale, state, [(optimizer, grads, variables)])

Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from ampcore.precision.overwrite_with_gradient import is_overwritten
from ampspec.precision.precision import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    AutoScale,
    CalibratedScale,
    DynamicScale,
    FixedScale,
    NoScale,
)

SCALE_RANGE_TEXT = "from 2^-96 to 2^96"

Tensor = Any
Gradients = Any
"""Any nesting of tensors, tf.IndexedSlices and None."""


class LossScaleState(NamedTuple):
    """The state that changes from step to step, as scalar tensors, for tf.while_loop.

    `scale` is float32, the counters are int32: `good_steps` and `bad_steps` are the finite and
    the non-finite steps in a row since the scale last changed, `round_steps` the steps of the
    present round of calibration and freeze (0 for the kinds that have none).
    """

    scale: Tensor
    good_steps: Tensor
    bad_steps: Tensor
    round_steps: Tensor


LossScaleStates = tuple[LossScaleState, ...]
"""One state for each network of a task, in order."""


def _state(scale: float) -> LossScaleState:
    zero = tf.constant(0)
    return LossScaleState(tf.constant(scale, tf.float32), zero, zero, zero)


@dataclass(frozen=True)
class NoLossScale:
    """No scaling, and no finite check of its own: for float32 and bfloat16, with a wide range."""

    checks_finite: ClassVar[bool] = False

    def init(self) -> LossScaleState:
        """A state whose scale is 1 and stays 1."""
        return _state(1.0)

    def scale(self, state: LossScaleState, loss: Tensor) -> Tensor:
        """The loss itself, in float32."""
        return tf.cast(loss, tf.float32)

    def unscale(
        self, state: LossScaleState, grads: Gradients, variables: Sequence[Any] | None = None
    ) -> Gradients:
        """The gradients themselves, in float32; `variables` as in the other kinds."""
        return _unscaled(grads, variables, None)

    def adjust(self, state: LossScaleState, finite: Tensor) -> LossScaleState:
        """The same state."""
        _check_finite_flag(state, finite)
        return state

    def clamp(self, state: LossScaleState) -> LossScaleState:
        """The state with the scale 1."""
        return state._replace(scale=tf.ones_like(state.scale))


class _Scaling:
    """The arithmetic that all kinds but NoLossScale share."""

    checks_finite: ClassVar[bool] = True

    def scale(self, state: LossScaleState, loss: Tensor) -> Tensor:
        """The loss times the scale, in float32."""
        return tf.cast(loss, tf.float32) * state.scale

    def unscale(
        self, state: LossScaleState, grads: Gradients, variables: Sequence[Any] | None = None
    ) -> Gradients:
        """Divide every gradient by the loss scale, in float32.

        Args:
            state: The state that the loss was scaled with.
            grads: Any nesting of tensors, IndexedSlices, which stay sparse, and None.
            variables: One for each of a flat list of gradients: then the "gradients" of variables
                that are overwritten with them (float8 scales and amax histories) stay as they are.
        """
        return _unscaled(grads, variables, 1.0 / state.scale)


@dataclass(frozen=True)
class FixedLossScale(_Scaling):
    """A constant loss scale; the caller skips steps with non-finite gradients."""

    value: float = 1024.0

    def __post_init__(self) -> None:
        _require(
            SMALLEST_SCALE <= self.value <= LARGEST_SCALE,
            f"a value {SCALE_RANGE_TEXT}",
            value=self.value,
        )

    def init(self) -> LossScaleState:
        """A state that holds the constant scale."""
        return _state(self.value)

    def adjust(self, state: LossScaleState, finite: Tensor) -> LossScaleState:
        """The same state: a fixed scale does not change."""
        _check_finite_flag(state, finite)
        return state

    def clamp(self, state: LossScaleState) -> LossScaleState:
        """The state with its scale limited to the range that float32 can multiply and divide by."""
        return _clamped(state, SMALLEST_SCALE, LARGEST_SCALE)


@dataclass(frozen=True)
class DynamicLossScale(_Scaling):
    """A loss scale that tracks the largest value at which the gradients stay finite.

    It grows by `growth_factor` after exactly `growth_interval` finite steps in a row, and
    shrinks by `backoff_factor` on every `hysteresis`-th non-finite step in a row; it never
    leaves `minimum` … `maximum`, and so never becomes 0, infinite or NaN.
    """

    initial: float = 2.0**15
    growth_interval: int = 2000
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    minimum: float = 1.0
    maximum: float = 2.0**24
    hysteresis: int = 1

    def __post_init__(self) -> None:
        _require(
            SMALLEST_SCALE <= self.minimum <= self.initial <= self.maximum <= LARGEST_SCALE,
            f"minimum ≤ initial ≤ maximum, {SCALE_RANGE_TEXT}",
            minimum=self.minimum,
            initial=self.initial,
            maximum=self.maximum,
        )
        _require(
            0 < self.backoff_factor < 1 < self.growth_factor < math.inf,
            "0 < backoff_factor < 1 < growth_factor",
            backoff_factor=self.backoff_factor,
            growth_factor=self.growth_factor,
        )
        _require(
            self.growth_interval >= 1 and self.hysteresis >= 1,
            "counts of at least 1",
            growth_interval=self.growth_interval,
            hysteresis=self.hysteresis,
        )

    def init(self) -> LossScaleState:
        """A state at the initial scale, with nothing counted."""
        return _state(self.initial)

    def adjust(self, state: LossScaleState, finite: Tensor) -> LossScaleState:
        """The state after a step; `finite` tells whether its gradients were all finite.

        `finite` has the shape of the state: a scalar for one scale.
        """
        _check_finite_flag(state, finite)
        good_steps = tf.where(finite, state.good_steps + 1, 0)
        bad_steps = tf.where(finite, 0, state.bad_steps + 1)
        grow, back_off = good_steps >= self.growth_interval, bad_steps >= self.hysteresis
        larger = tf.minimum(state.scale * self.growth_factor, self.maximum)
        smaller = tf.maximum(state.scale * self.backoff_factor, self.minimum)
        return state._replace(
            scale=tf.where(grow, larger, tf.where(back_off, smaller, state.scale)),
            good_steps=tf.where(grow, 0, good_steps),
            bad_steps=tf.where(back_off, 0, bad_steps),
        )

    def clamp(self, state: LossScaleState) -> LossScaleState:
        """The state with its scale limited to `minimum` … `maximum`."""
        return _clamped(state, self.minimum, self.maximum)


@dataclass(frozen=True)
class CalibratedLossScale(DynamicLossScale):
    """A loss scale that is dynamic during calibration and frozen between calibrations.

    A round is `calibration_steps` steps as DynamicLossScale makes them, then `audit_interval`
    steps at the scale found; then the next round begins, from that scale. Non-finite steps of a
    frozen scale are skipped like all others; the `hysteresis`-th of them in a row shows that the
    scale has become too large: it backs off, and a new round begins immediately.
    """

    growth_interval: int = 100
    hysteresis: int = 2
    calibration_steps: int = 1000
    audit_interval: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(
            self.calibration_steps >= 1
            and self.audit_interval >= 1
            and self.calibration_steps + self.audit_interval < 2**31,
            "counts of at least 1, their sum below 2^31",
            calibration_steps=self.calibration_steps,
            audit_interval=self.audit_interval,
        )

    def adjust(self, state: LossScaleState, finite: Tensor) -> LossScaleState:
        """The state after a step whose gradients were all finite, or not."""
        moved = super().adjust(state, finite)
        bad_steps = tf.where(finite, 0, state.bad_steps + 1)
        frozen = state.round_steps >= self.calibration_steps
        too_large = tf.logical_and(frozen, bad_steps >= self.hysteresis)
        holds = tf.logical_and(frozen, bad_steps < self.hysteresis)
        ended = state.round_steps + 1 >= self.calibration_steps + self.audit_interval
        return LossScaleState(
            scale=tf.where(holds, state.scale, moved.scale),
            # A frozen scale gives no information about larger scales.
            good_steps=tf.where(holds, 0, moved.good_steps),
            bad_steps=tf.where(holds, bad_steps, moved.bad_steps),
            round_steps=tf.where(tf.logical_or(too_large, ended), 0, state.round_steps + 1),
        )


LossScale = NoLossScale | FixedLossScale | DynamicLossScale | CalibratedLossScale
ResolvedScaleSpec = NoScale | FixedScale | DynamicScale | CalibratedScale
LossScaleSpec = ResolvedScaleSpec | AutoScale


def from_spec(spec: LossScaleSpec, compute_dtypes: Collection[str] = ()) -> LossScale:
    """The loss scale of a job spec.

    Args:
        spec: Its kind and constants.
        compute_dtypes: The compute dtypes of the model's layers on the device, which resolve
            `auto`.
    """
    match resolve_loss_scale(spec, compute_dtypes):
        case NoScale():
            return NoLossScale()
        case FixedScale(scale=value):
            return FixedLossScale(value)
        case DynamicScale() as resolved:
            return DynamicLossScale(**resolved.model_dump(exclude={"mode"}))
        case CalibratedScale() as resolved:
            return CalibratedLossScale(**resolved.model_dump(exclude={"mode"}))


def resolve_loss_scale(spec: LossScaleSpec, compute_dtypes: Collection[str]) -> ResolvedScaleSpec:
    """Resolve `auto` for layers that compute in these dtypes; other specs stay."""
    if not isinstance(spec, AutoScale):
        return spec
    return DynamicScale() if "float16" in compute_dtypes else NoScale()


def _clamped(state: LossScaleState, minimum: float, maximum: float) -> LossScaleState:
    return state._replace(scale=tf.clip_by_value(state.scale, minimum, maximum))


def _unscaled(
    grads: Gradients, variables: Sequence[Any] | None, factor: Tensor | None
) -> Gradients:
    if variables is None:
        return tf.nest.map_structure(lambda grad: _float32(grad, factor), grads)
    rows = zip(grads, variables, strict=True)
    return [grad if is_overwritten(variable) else _float32(grad, factor) for grad, variable in rows]


def _float32(grad: Any, factor: Tensor | None) -> Any:
    if grad is None:
        return None
    if isinstance(grad, tf.IndexedSlices):
        values = _float32(grad.values, factor)
        return tf.IndexedSlices(values, grad.indices, grad.dense_shape)
    # Cast first: the quotient may be too small for float16.
    grad = tf.cast(grad, tf.float32)
    return grad if factor is None else grad * factor


def _check_finite_flag(state: LossScaleState, finite: Any) -> None:
    """Check that the flag has the shape of the scale; otherwise the state's shapes would differ."""
    flag, shape = tf.convert_to_tensor(finite), tf.convert_to_tensor(state.scale).shape
    are_shapes_known = flag.shape.is_fully_defined() and shape.is_fully_defined()
    if flag.dtype != tf.bool or (are_shapes_known and flag.shape != shape):
        raise ValueError(
            f"Expected finite: a boolean of the shape of the state's scale, {shape} (several "
            "flags of one scale are reduced with tf.reduce_all). "
            f"Received: finite of shape {flag.shape} and dtype {flag.dtype.name}"
        )


def _require(condition: bool, expected: str, **received: float) -> None:
    if not condition:
        values = ", ".join(f"{name}={value}" for name, value in received.items())
        raise ValueError(f"Expected {expected}. Received: {values}")
